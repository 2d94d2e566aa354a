"""The ledger is the one table that several writers change in place; an OPTIMIZE between them doubles no entry."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

CHANNEL = "/data/ChangeEvents"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """With a ledger of two entries, a file for each."""
    warehouse = Warehouse(str(tmp_path))
    for position in (1, 2):
        suspect = NewSuspect(f"00{position}", Reason.GAP_UPDATE, position, None)
        Ledger.open_or_create(warehouse, "Account").note([suspect], CHANNEL, position, 1_000)
    return warehouse


def opened(warehouse: Warehouse) -> Ledger:
    ledger = Ledger.open(warehouse, "Account")
    assert ledger is not None
    return ledger


def entries(warehouse: Warehouse) -> list[tuple[str, str]]:
    rows = opened(warehouse).table.scan(["record_id", "status"]).to_pylist()
    return sorted((row["record_id"], row["status"]) for row in rows)


def test_entries_that_an_optimize_has_moved_are_closed_once(warehouse: Warehouse) -> None:
    stale = opened(warehouse)
    DeltaTable(warehouse.uri(name_of("Account"))).optimize.compact()
    stale.heal(stale.open_suspects(), {"001": 1, "002": 2}, 2_000)
    assert entries(warehouse) == [("001", "healed"), ("002", "healed")]


def test_what_replaces_entries_is_the_next_commit_after_what_was_read_or_none(warehouse: Warehouse) -> None:
    stale = opened(warehouse)
    suspect = NewSuspect("003", Reason.GAP_UPDATE, 3, None)
    opened(warehouse).note([suspect], CHANNEL, 3, 1_000)
    keys = {"record_id": ["001"], "opened_position": [1], "reason": ["GAP_UPDATE"], "status": ["healed"]}
    with pytest.raises(ConcurrentCommit):
        stale.table.update_rows(pa.table(keys), ("record_id", "opened_position", "reason"), ("status",), "true")
    assert entries(warehouse) == [("001", "open"), ("002", "open"), ("003", "open")]


def test_an_entry_that_was_noted_meanwhile_does_not_keep_others_from_being_closed(warehouse: Warehouse) -> None:
    stale = opened(warehouse)
    suspect = NewSuspect("003", Reason.GAP_UPDATE, 3, None)
    opened(warehouse).note([suspect], CHANNEL, 3, 1_000)
    stale.heal(stale.open_suspects(), {"001": 1, "002": 2}, 2_000)
    assert entries(warehouse) == [("001", "healed"), ("002", "healed"), ("003", "open")]


def test_an_entry_that_was_closed_meanwhile_stays_as_it_was_closed(warehouse: Warehouse) -> None:
    first, second = opened(warehouse), opened(warehouse)
    first.heal(first.open_suspects(), {"001": 1, "002": 2}, 2_000)
    second.failed(second.open_suspects(), "the org was not reached", 3_000)
    assert entries(warehouse) == [("001", "healed"), ("002", "healed")]
    assert opened(warehouse).table.scan(["last_error"])["last_error"].to_pylist() == [None, None]
