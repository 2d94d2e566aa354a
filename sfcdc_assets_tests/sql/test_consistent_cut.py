"""`open_cut`: the same rows by every engine, as of when, and what an entity that lags is to a strict reader."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sfcdc_assets import open_cut
from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.lake.errors import EntitiesLag, UnknownInCut
from sfcdc_assets.lake.tables.consistent_cuts import Cut, Lagging, add_cut, latest_cut
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets.sql.ask import ask, opened
from sfcdc_assets.sql.cut_summary import CutSummary, ShownEntity
from sfcdc_assets.sql.errors import QueryFailed
from sfcdc_assets.sql.results import Format
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL
from sfcdc_assets_tests.pipeline.oracle import expected_rows
from sfcdc_assets_tests.sql.conftest import ENTITIES, Asked
from sfcdc_assets_tests.sql.small_warehouse import small_warehouse

pytestmark = pytest.mark.slow

SINCE = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def session() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFCDC_SPARK_CONF_SPARK__UI__ENABLED", "false")
        found = spark_session(load_settings())
    yield found
    found.stop()


def newest(asked: Asked) -> Cut:
    cut = latest_cut(Warehouse(asked.root), CHANNEL)
    assert cut is not None
    return cut


def living(asked: Asked, entity: str) -> set[str]:
    return {key for key, row in expected_rows(asked.pipeline.org, entity).items() if not row["_is_deleted"]}


def ids(rows: pa.Table) -> list[str]:
    return sorted(rows["Id"].to_pylist())


@pytest.mark.parametrize("entity", ENTITIES)
def test_every_engine_shows_the_live_records_and_those_of_deleted_ones_when_asked(asked: Asked, entity: str) -> None:
    opened = open_cut(asked.root)
    rows = opened.arrow(entity)
    assert ids(rows) == sorted(living(asked, entity))
    assert opened.polars(entity).sort("Id").equals(pl.DataFrame(rows).sort("Id"))
    assert opened.pandas(entity)["Id"].tolist() == rows["Id"].to_pylist()
    with opened.duckdb() as views:
        found = views.execute(f'SELECT "Id" FROM "{entity.lower()}" ORDER BY "Id"').fetchall()
    assert [each for (each,) in found] == ids(rows)
    assert opened.arrow(entity, deleted=True).num_rows == opened[f"current_state/{entity}"].count()


def test_spark_reads_the_files_of_the_cut(asked: Asked, session: SparkSession) -> None:
    opened = open_cut(asked.root)
    for entity in ENTITIES:
        rows = opened.spark(session, entity)
        assert rows.columns == opened.arrow(entity).column_names
        assert sorted(row["Id"] for row in rows.select("Id").collect()) == ids(opened.arrow(entity))
    everything = opened.spark(session, "Account", deleted=True)
    assert everything.count() == opened["current_state/Account"].count()


def test_an_entity_is_named_in_any_case_and_one_that_is_not_there_is_refused(asked: Asked) -> None:
    opened = open_cut(asked.root)
    assert opened.arrow("account").num_rows == opened.arrow("Account").num_rows
    with pytest.raises(LookupError, match="Entities that are: Account, Case, User"):
        opened.arrow("Lead")
    with pytest.raises(KeyError):
        opened["current_state/Lead"]


def test_a_name_that_is_mistyped_suggests_the_right_one(asked: Asked) -> None:
    opened = open_cut(asked.root)
    with pytest.raises(UnknownInCut, match=r"Acount is not in the cut\. Did you mean Account\?"):
        opened.polars("Acount")
    with pytest.raises(KeyError, match=r"Did you mean current_state/Account\?"):
        opened["current_state/Acount"]
    assert "current_state/Account" in opened
    assert "current_state/Lead" not in opened


def test_an_entity_that_no_cut_has_yet_is_said_to_wait_for_its_first(tmp_path: Path) -> None:
    """The cut of polled objects is there, while that of a channel waits for its last transaction."""
    warehouse = small_warehouse(tmp_path, ["Case"])
    CurrentState.open_or_create(warehouse, "Account", [ID_COLUMN])
    waits = "Account has tables, but no consistent cut yet. Run `sfcdc sync --until-caught-up`"
    with pytest.raises(LookupError, match=waits):
        open_cut(warehouse.root).arrow("account")
    with opened(warehouse.root, None) as tables:
        for query in ("from account", 'select 1 from Account_History join "case" using (Id)'):
            with pytest.raises(QueryFailed, match=waits):
                list(ask(tables, query, Format.CSV, StringIO(), None, None))
        with pytest.raises(QueryFailed, match="Table with name lead does not exist"):
            list(ask(tables, "from lead", Format.CSV, StringIO(), None, None))
    assert list(open_cut(warehouse.root).entities) == ["Case"]


def test_a_cut_shows_what_is_in_it(asked: Asked) -> None:
    opened, cut = open_cut(asked.root), newest(asked)
    assert cut.commit_timestamp is not None
    shown = repr(opened).splitlines()
    assert shown[0] == "ConsistentCut of 3 entities:"
    assert shown[1] == f"  {CHANNEL} at position {cut.position}, as of {cut.commit_timestamp:%Y-%m-%d %H:%M:%S}"
    for entity, line in zip(sorted(ENTITIES), shown[3:], strict=True):
        assert line.split()[:2] == [entity, str(len(living(asked, entity)))]
    page = opened._repr_html_()
    assert page.count("<tr>") == 1 + len(ENTITIES)


def test_a_cut_of_hundreds_of_entities_shows_those_that_lag_first_and_escapes_what_others_wrote() -> None:
    names = [f"E{number:03}__c" for number in range(500)]
    lag = Lagging("Z__c", None, None, SINCE, "<script>alert(1)</script>\x1b[2J")
    summary = CutSummary(
        [Cut(CHANNEL, 7, None, {})],
        [ShownEntity("Z__c", None, None), *(ShownEntity(name, 1234, SINCE) for name in names[:11])],
        {"Z__c": lag},
        501,
    )
    lines = summary.text().splitlines()
    assert len(lines) == 16
    assert "lags since 2026-11-23 12:00:00" in lines[3]
    assert lines[-1] == "  ... and 489 more: `.entities`, `.as_of` and `.lagging` have all"
    assert "\x1b" not in summary.text()
    assert "<script>" not in summary.html()


def test_a_strict_reader_gets_no_entity_that_lags(asked: Asked) -> None:
    cut = newest(asked)
    assert cut.commit_timestamp is not None
    before = cut.commit_timestamp - timedelta(hours=1)
    lagging = (
        Lagging("Case", cut.position - 1, before, SINCE, "events are not applied"),
        Lagging("Lead", None, None, SINCE, "not copied yet"),
    )
    assert open_cut(asked.root).as_of == dict.fromkeys(ENTITIES, cut.commit_timestamp)
    later = datetime.now(UTC) + timedelta(hours=12)
    try:
        assert add_cut(Warehouse(asked.root), replace(cut, lagging=lagging), datetime.now(UTC) + timedelta(days=1))
        opened = open_cut(asked.root)
        assert opened.as_of == {**dict.fromkeys(ENTITIES, cut.commit_timestamp), "Case": before}
        assert opened.entities == tuple(sorted(ENTITIES))
        assert tuple(opened.lagging.values()) == lagging
        assert opened.arrow("Case").num_rows == len(living(asked, "Case"))
        with pytest.raises(EntitiesLag, match=r"Lead lags since 2026-11-23 12:00:00 UTC \(not copied yet\): without"):
            opened.polars("Lead")
        strict = open_cut(asked.root, strict=True)
        assert strict.entities == ("Account", "User")
        assert "current_state/Case" not in set(strict)
        assert strict.arrow("Account").num_rows
        with pytest.raises(EntitiesLag, match="Case lags since"):
            strict.arrow("Case")
        with pytest.raises(EntitiesLag, match="Case lags since"):
            strict["current_state/Case"]
        with strict.duckdb() as views:
            shown = {
                name for (name,) in views.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
            }
        assert {"account", "sfcdc_lagging"} <= shown
        assert "case" not in shown
    finally:
        asked.pipeline.table("consistent_cuts").delete(f"applied_at > '{later.isoformat()}'")
