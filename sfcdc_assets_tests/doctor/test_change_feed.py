"""Delta's change data feed on our tables: found, and switched off by whoever writes next."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sfcdc_assets.doctor.finding import Outcome
from sfcdc_assets.doctor.storage import change_feed
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.lake.test_roll_backs import AT, CHANNEL
from sfcdc_assets_tests.timeline.builders import COLUMNS

NAME = "current_state/Account"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """One with a table on which somebody has switched on the feed."""
    made = Warehouse(str(tmp_path))
    state = CurrentState.open_or_create(made, "Account", COLUMNS)
    DeltaTable(made.uri(NAME)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    add_cut(made, Cut(CHANNEL, 1, AT, {NAME: state.table.version}), AT)
    return made


def has_feed(warehouse: Warehouse) -> bool:
    table = Table.open(warehouse, NAME)
    assert table is not None
    return table.has_change_feed


def test_a_table_with_the_feed_is_named_with_the_reason_why_it_is_refused(warehouse: Warehouse) -> None:
    found = change_feed(warehouse)
    assert found.outcome is Outcome.WARNING
    assert f"is on {NAME}. Delta's change data feed is not for these tables" in found.found
    assert "Ask changes_since instead" in found.found
    assert "switches it off" in found.fix


def test_maintenance_switches_it_off_and_goes_on(warehouse: Warehouse, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        done = list(maintain(warehouse, Retention(7), clock.now_ms()))
    assert not [each for each in done if each.failure]
    assert f"{NAME}: Delta's change data feed is not for these tables" in caplog.text
    assert not has_feed(warehouse)
    assert change_feed(warehouse).outcome is Outcome.OK


def test_a_writer_switches_it_off_once(warehouse: Warehouse) -> None:
    table = Table.open(warehouse, NAME)
    assert table is not None
    assert [table.refuse_change_feed(), has_feed(warehouse)] == [True, False]
    assert not table.refuse_change_feed()
