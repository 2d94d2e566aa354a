"""What an entity's tables were before a batch went back: noted in its commit, and kept as long as cuts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import history
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.roll_backs import (
    SLOTS,
    RollBack,
    noting_roll_back,
    roll_backs,
    versions_before_roll_backs,
)
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.timeline.builders import COLUMNS

CHANNEL = "/data/ChangeEvents"
AT = datetime(2026, 11, 20, tzinfo=UTC)
AT_MS = int(AT.timestamp() * 1000)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def go_back(warehouse: Warehouse, batch: int, *, to: int = 7, built_at: int = 1, now_ms: int = AT_MS) -> RollBack:
    """A batch that goes back; what it notes."""
    state = CurrentState.open_or_create(warehouse, "Account", COLUMNS)
    versions = history.open_or_create(warehouse, "Account", COLUMNS)
    versions.append([], batch)
    noted = RollBack(batch, to, built_at, state.table.version, versions.table.version, now_ms)
    after = Checkpoint(batch=batch, rolled_back_in=batch, rolled_back_to=to, built_at=built_at)
    state.commit([], [], CHANNEL, after, None, {}, noting_roll_back(state.table, versions.table, after, now_ms))
    return noted


def rows(warehouse: Warehouse) -> Table:
    found = CurrentState.open(warehouse, "Account")
    assert found is not None
    return found.table


def test_a_batch_that_goes_back_notes_which_versions_were_there_before_it(warehouse: Warehouse) -> None:
    first, second = go_back(warehouse, 3), go_back(warehouse, 5, to=2)
    assert roll_backs(rows(warehouse)) == (first, second)
    assert roll_backs(rows(warehouse))[0].rows < roll_backs(rows(warehouse))[1].rows < rows(warehouse).version


def test_the_last_ones_are_remembered(warehouse: Warehouse) -> None:
    noted = [go_back(warehouse, batch) for batch in range(1, SLOTS + 3)]
    assert roll_backs(rows(warehouse)) == tuple(noted[-SLOTS:])


def test_those_of_tables_that_were_rebuilt_since_say_nothing(warehouse: Warehouse) -> None:
    go_back(warehouse, 9)
    later = go_back(warehouse, 2, built_at=2)
    assert roll_backs(rows(warehouse)) == (later,)


def test_what_was_there_before_is_kept_as_long_as_cuts(warehouse: Warehouse) -> None:
    noted = go_back(warehouse, 3)
    kept = {"current_state/Account": frozenset({noted.rows}), "history/Account": frozenset({noted.versions})}
    assert versions_before_roll_backs(warehouse, 7, AT + timedelta(days=6)) == kept
    assert versions_before_roll_backs(warehouse, 7, AT + timedelta(days=8)) == {}


def test_a_table_that_never_went_back_keeps_nothing(warehouse: Warehouse) -> None:
    CurrentState.open_or_create(warehouse, "Account", COLUMNS)
    assert versions_before_roll_backs(warehouse, 7, AT) == {}
