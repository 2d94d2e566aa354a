"""An asset for each entity: which have one, and what depends on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets import build_defs
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.consistent_cuts import Cut, Lagging
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets import front_doors
from sfcdc_assets.orchestration.assets.front_doors import UnreportedDoors, entity_names
from sfcdc_assets.settings.given_settings import settings_of
from sfcdc_assets_tests.sql.small_warehouse import CHANNEL, small_warehouse

OPPORTUNITY, ACCOUNT = dg.AssetKey(["salesforce", "opportunity"]), dg.AssetKey(["salesforce", "account"])


def test_entities_are_known_from_settings_or_from_the_tables(tmp_path: Path) -> None:
    for entity in ("Account", "Case"):
        (tmp_path / "current_state" / entity).mkdir(parents=True)
    assert entity_names(settings_of({"warehouse": str(tmp_path)})) == ("Account", "Case")
    polled = {"warehouse": str(tmp_path), "poll": ["Contract", "Order*"]}
    assert entity_names(settings_of(polled)) == ("Account", "Case", "Contract")
    assert entity_names(settings_of({**polled, "entities": ["Lead"]})) == ("Lead",)
    assert entity_names(settings_of({"warehouse": str(tmp_path / "none")})) == ()


def test_an_object_that_a_person_wrote_in_another_case_has_one_asset_and_definitions_load(tmp_path: Path) -> None:
    (tmp_path / "current_state" / "Contract").mkdir(parents=True)
    given = {"warehouse": str(tmp_path), "poll": ["contract", "CONTRACT"]}
    assert entity_names(settings_of(given)) == ("Contract",)
    dg.Definitions.validate_loadable(build_defs(given))
    assert len(entity_names(settings_of({**given, "entities": ["lead", "Lead"]}))) == 1


def test_a_warehouse_that_does_not_answer_costs_seconds_and_a_warning_and_definitions_load(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(front_doors, "LISTING_SECONDS", 0.01)
    monkeypatch.setattr(Warehouse, "entities", lambda *_: answers.wait(10) and ())
    with caplog.at_level(logging.WARNING):
        defs = build_defs({"warehouse": str(tmp_path)})
    answers.set()
    dg.Definitions.validate_loadable(defs)
    assert "its entities could not be listed" in caplog.text


def test_an_entity_that_is_called_as_a_layer_has_a_key_of_its_own(tmp_path: Path) -> None:
    defs = build_defs({"warehouse": str(tmp_path), "entities": ["History", "Opportunity"]})
    dg.Definitions.validate_loadable(defs)
    keys = defs.resolve_asset_graph().get_all_asset_keys()
    assert {OPPORTUNITY, dg.AssetKey(["salesforce", "history_entity"])} <= keys


def test_an_asset_downstream_follows_its_entity_and_no_other(tmp_path: Path) -> None:
    @dg.asset(deps=[["salesforce", "opportunity"]], automation_condition=dg.AutomationCondition.eager())
    def eager() -> None: ...

    @dg.asset(deps=[OPPORTUNITY], automation_condition=dg.AutomationCondition.on_cron("* * * * *"))
    def each_minute() -> None: ...

    @dg.asset(deps=[OPPORTUNITY], automation_condition=dg.AutomationCondition.on_missing())
    def never() -> None: ...

    @dg.asset(deps=[OPPORTUNITY], automation_condition=dg.AutomationCondition.cron_tick_passed("* * * * *"))
    def without_news() -> None: ...

    own = dg.Definitions(assets=[eager, each_minute, never, without_news])
    ours = build_defs({"warehouse": str(tmp_path), "entities": ["Account", "Opportunity"]})
    merged = dg.Definitions.merge(ours, own)
    now = datetime(2026, 1, 1, 12, 0, 5)
    with dg.DagsterInstance.ephemeral() as instance:
        cursor = None

        def requested(seconds: int, *reported: dg.AssetKey) -> set[str]:
            nonlocal cursor
            for key in reported:
                instance.report_runless_asset_event(dg.AssetMaterialization(key))
            found = dg.evaluate_automation_conditions(
                merged, instance, cursor=cursor, evaluation_time=now + timedelta(seconds=seconds)
            )
            cursor = found.cursor
            names = ("eager", "each_minute", "never", "without_news")
            return {name for name in names if found.get_num_requested(dg.AssetKey(name))}

        assert requested(0) == set(), "nothing is there yet"
        assert requested(1, ACCOUNT) == set()
        assert requested(2, OPPORTUNITY) == {"eager"}, "on_missing asks for partitions that are added later"
        assert requested(3) == set()
        assert requested(60, OPPORTUNITY) == {"eager", "each_minute", "without_news"}
        assert requested(120) == {"without_news"}, "of a quiet entity"


class CommittedEntities:
    """Small tables that are committed to, cuts over them, and what runs report of them."""

    def __init__(self, warehouse: Warehouse, instance: dg.DagsterInstance) -> None:
        self.warehouse, self._instance = warehouse, instance
        self.cuts: list[Cut] = []

    def commit(self, entity: str, batch: int | None = None) -> None:
        """A batch of this number, or with None what upkeep does."""
        table = Table.open(self.warehouse, current_state.name_of(entity))
        assert table is not None
        table.append(table.schema.empty_table(), {} if batch is None else Checkpoint(batch=batch).versions(CHANNEL), {})

    def cut(self, *lagging: str) -> Cut:
        """Over the tables as they are."""
        names = {name: Table.open(self.warehouse, name) for name in map(current_state.name_of, ("Account", "Case"))}
        versions = {name: table.version for name, table in names.items() if table is not None}
        since = datetime(2026, 1, 1, tzinfo=UTC)
        lags = tuple(Lagging(entity, None, None, since, "not copied yet") for entity in lagging)
        self.cuts.append(Cut(CHANNEL, len(self.cuts), None, versions, lagging=lags))
        return self.cuts[-1]

    def reported_by_a_run(self, *lagging: str) -> list[str]:
        """With the cut that it reaches, which comes after the last one; which entities."""
        before = self.cuts[-1] if self.cuts else None
        doors = UnreportedDoors(ASSETS, self._instance)
        doors.cut(self.cut(*lagging), before)
        events = doors.take(self.warehouse, at_once=True)
        for event in events:
            self._instance.report_runless_asset_event(event)
        assert not doors.take(self.warehouse, at_once=True), "once"
        return sorted(event.asset_key.path[-1] for event in events)


@pytest.fixture
def committed(tmp_path: Path) -> Iterator[CommittedEntities]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield CommittedEntities(small_warehouse(tmp_path, ["Account", "Case"]), instance)


def test_a_batch_of_a_run_that_reached_no_cut_is_reported_by_the_run_that_does(committed: CommittedEntities) -> None:
    committed.reported_by_a_run()
    committed.commit("Account", batch=1)  # by a run that reaches no cut
    committed.commit("Case", batch=1)
    assert committed.reported_by_a_run() == ["account", "case"]
    committed.commit("Case", batch=2)
    assert committed.reported_by_a_run() == ["case"]


def test_an_entity_that_lagged_is_reported_with_the_cut_in_which_it_does_not(committed: CommittedEntities) -> None:
    committed.commit("Account", batch=1)
    committed.commit("Case", batch=1)
    assert committed.reported_by_a_run("Account") == ["case"]
    assert committed.reported_by_a_run("Account") == []
    assert committed.reported_by_a_run() == ["account"]
    assert committed.reported_by_a_run() == []


def test_what_upkeep_commits_is_not_reported(committed: CommittedEntities) -> None:
    committed.commit("Account", batch=1)
    assert committed.reported_by_a_run() == ["account", "case"]
    committed.commit("Account")
    assert committed.reported_by_a_run() == []
