"""A transaction is in the tables whole or not at all, wherever landing or applying it was interrupted (guarantee 5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from typer.testing import CliRunner

from sfcdc_assets import open_cut
from sfcdc_assets.apply.apply_changes import ToApply, apply_entity
from sfcdc_assets.apply.record_cut import note_cut
from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.cli.main import app
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.records.lead_conversion import ConvertedLead
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.pipeline.story import go_on, land_a_piece, story
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Contact", "Lead", "Opportunity")
TABLES = ROOT / "docs" / "tables.md"
CONVERSIONS = 2


class Conversions:
    """Leads that were converted, and how much of each conversion some tables show."""

    def __init__(self, pipeline: EmulatedPipeline) -> None:
        leads = [str(lead["Id"]) for lead in pipeline.org.records("Lead") if not lead["IsConverted"]]
        self.pipeline = pipeline
        self.warehouse = Warehouse(str(pipeline.warehouse))
        self.made: list[ConvertedLead] = []
        for lead in leads[:CONVERSIONS]:
            with pipeline.org.transaction() as one:
                self.made.append(one.convert_lead(lead))

    def seen(self, versions: Mapping[str, int] | None = None) -> list[int]:
        """Of each conversion how many of its four records the tables show as they are after it: all tables as they
        are, or at the versions of a cut."""
        rows = {entity: self._rows(entity, versions) for entity in ENTITIES}
        return [
            (made.account_id in rows["Account"])
            + (made.contact_id in rows["Contact"])
            + (made.opportunity_id in rows["Opportunity"])
            + (rows["Lead"][made.lead_id]["IsConverted"] is True)
            for made in self.made
        ]

    def seen_in_cut(self) -> list[int]:
        """The same of the newest cut."""
        cut = latest_cut(self.warehouse, CHANNEL)
        assert cut is not None
        return self.seen(cut.tables)

    def _rows(self, entity: str, versions: Mapping[str, int] | None) -> dict[str, dict[str, Any]]:
        path = f"current_state/{entity}"
        version = versions[path] if versions else None
        table = DeltaTable(str(self.pipeline.warehouse / path), version=version)
        return {row["Id"]: row for row in pa.table(table.scan()).to_pylist()}

    # -- the pipeline, step by step

    def apply(self, entity: str) -> None:
        """Bring one entity's tables as far as they may go, and note the cut if that completes one."""
        apply_entity(run_on(self.warehouse, spark=session_of_tests), ToApply(entity, CHANNEL))
        position = RawEvents.open(self.warehouse).complete_position(CHANNEL)
        note_cut(self.warehouse, dict.fromkeys(ENTITIES, CHANNEL), CHANNEL, position, clock.now_ms())


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    with story(tmp_path_factory.mktemp("transactions"), ENTITIES, records=CONVERSIONS + 2) as pipeline:
        pipeline.sync()
        yield pipeline


def test_lead_conversion_is_never_seen_half_wherever_a_poll_or_a_run_ends(
    description: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(description, monkeypatch)
    conversions = Conversions(description)
    shown = [conversions.seen_in_cut()]
    for number in range(1, 4 * CONVERSIONS):
        # The event before comes again: nothing has shown yet that all of its replay id were delivered.
        report = land_a_piece(description, events=1 if number == 1 else 2)
        assert (report.count, report.is_complete) == (1, False)
        assert report.complete_position == (number - 1) // 4 * 4, "whole once the next one has begun"
        # Another entity is the last in each round: the run may have ended after any of them.
        order = [ENTITIES[(number + later) % 4] for later in range(4)]
        for entity in order:
            conversions.apply(entity)
            shown.append(conversions.seen_in_cut())
            assert set(shown[-1]) <= {0, 4}, (number, entity, shown[-1])
            assert entity == order[-1] or shown[-1] == shown[-2], "there is a cut when all have arrived, not sooner"
        assert conversions.seen() == shown[-1] == [4 if number > 4 else 0, 0]
    assert [4, 0] in shown
    description.sync()
    assert conversions.seen() == conversions.seen_in_cut() == [4, 4]
    description.assert_equal_to_the_org()


def test_a_stream_that_pauses_in_midst_of_a_transaction_shows_none_of_it_until_it_goes_on(
    description: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For less than the settling time: a shorter silence ends a poll, and completes nothing."""
    go_on(description, monkeypatch)
    description.sync()
    conversions = Conversions(description)
    description.server.faults.arm(Fault.STREAM_PAUSE, after=2, seconds=9)
    outcomes = sync_channels(description.instance, until_caught_up=False, report=description.said.append)
    assert [outcome.jobs for outcome in outcomes] == [()]
    assert "the last transaction may not be complete yet" in outcomes[-1].said
    assert "is left for the next time; --until-caught-up waits for it" in description.said[-1]
    assert conversions.seen() == conversions.seen_in_cut() == [0, 0]
    description.server.faults.arm(Fault.STREAM_PAUSE, after=2, seconds=9)
    description.sync()
    assert description.server.faults.armed(Fault.STREAM_PAUSE) == 0
    assert conversions.seen() == conversions.seen_in_cut() == [4, 4]
    description.assert_equal_to_the_org()


def test_the_where_clause_of_the_docs_tells_any_moment_of_a_record_that_was_deleted_and_came_back(
    description: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(description, monkeypatch)
    page = TABLES.read_text()
    (clause,) = re.findall(r'WHERE (_valid_from.*?)"""', page, re.DOTALL)
    (view,) = re.findall(r'ALL_VERSIONS = """(.*?)"""', page, re.DOTALL)
    account = ids(description.org, "Account")[0]
    life: list[tuple[str, dict[str, str], str | None]] = [
        ("update", {"Name": "first"}, "first"),
        ("delete", {}, None),
        ("undelete", {}, "first"),
        ("update", {"Name": "second"}, "second"),
        ("delete", {}, None),
    ]
    since = description.org.last_commit_number
    for verb, values, _ in life:
        with description.org.transaction() as one:
            getattr(one, verb)("Account", account, *([values] if values else []))
    description.sync()
    times = [transaction.commit_timestamp for transaction in description.org.transactions(since)]
    names = dict(zip(times, (name for _, _, name in life), strict=True))  # of the last one at each time
    query = QueryBuilder()
    for layer in ("current_state", "history"):
        query.register(layer, description.table(f"{layer}/Account"))
    for committed, name in names.items():
        moment = datetime.fromtimestamp(committed / 1000, UTC).isoformat()
        where = clause.replace("{moment}", moment)
        found = pa.table(
            query.execute(f'WITH account AS ({view}) SELECT "Id", "Name" FROM account WHERE {where}').read_all()
        )
        assert dict(zip(*found.to_pydict().values(), strict=True)).get(account) == name, moment


def rows_of(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(pa.table(table.scan()).to_pylist(), key=str)


def test_the_tables_of_a_cut_open_in_three_lines_as_they_were_though_one_was_rebuilt_since(
    description: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on(description, monkeypatch)
    before = open_cut(str(description.warehouse))
    assert {f"{layer}/{entity}" for layer in ("current_state", "history") for entity in ENTITIES} <= set(before)
    printed = CliRunner().invoke(app, ["cut", "--json"])
    assert json.loads(printed.output)["tables"] == before.cuts[0].tables == {p: t.version() for p, t in before.items()}
    leads = rows_of(before["history/Lead"])
    assert CliRunner().invoke(app, ["rebuild", "--entity", "Lead"]).exit_code == 0
    assert description.table("history/Lead").version() > before.cuts[0].tables["history/Lead"]
    assert before["current_state/Account"].count() == len(description.rows("Account"))
    assert rows_of(before["history/Lead"]) == leads
    assert open_cut(str(description.warehouse))["current_state/Lead"].count() == len(description.rows("Lead"))
