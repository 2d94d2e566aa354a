"""`quarantine`: its positions are those that `raw_events` made true, whenever an attempt to land was cut off."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.change_events.raw_event_rows import QUARANTINE
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.quarantine import NAME, quarantine, settle_quarantine
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A channel that was landed up to position 2."""
    made = Warehouse(str(tmp_path))
    RawEvents.open(made).commit(events(1, 2), StreamCheckpoint(CHANNEL, 2, 2))
    return made


def unreadable(*found: tuple[int, str | None], writer: str = CHANNEL, warehouse: Warehouse) -> int:
    """What an attempt writes before it commits: events (delivery) at positions."""
    rows = [
        {"channel": CHANNEL, "position": position, "payload": b"?", "error": "?", "delivery": delivery}
        for position, delivery in found
    ]
    return quarantine(warehouse, pa.Table.from_pylist(rows, schema=QUARANTINE), writer)


def landed(warehouse: Warehouse, *positions: int, up_to: int) -> int:
    """The commit that gives out positions up to one, some of them to landed events; then quarantine follows."""
    raw_events = RawEvents.open(warehouse)
    raw_events.commit(events(*positions), StreamCheckpoint(CHANNEL, up_to, up_to))
    return settle_quarantine(warehouse, CHANNEL, raw_events.last_position(CHANNEL), raw_events.landed_among)


def held(warehouse: Warehouse) -> list[tuple[int, str | None]]:
    table = Table.open(warehouse, NAME)
    assert table is not None
    return sorted((row["position"], row["delivery"]) for row in table.scan().to_pylist())


def test_an_attempt_that_is_repeated_finds_its_rows(warehouse: Warehouse) -> None:
    assert unreadable((3, "a"), (5, "b"), warehouse=warehouse) == 2
    assert unreadable((3, "a"), (5, "b"), warehouse=warehouse) == 0
    assert landed(warehouse, 4, up_to=5) == 0
    assert held(warehouse) == [(3, "a"), (5, "b")]


def test_a_position_that_another_event_was_landed_at_is_no_longer_that_of_a_quarantined_one(
    warehouse: Warehouse,
) -> None:
    unreadable((3, "a"), (4, "b"), warehouse=warehouse)  # and the process died; now both can be read
    assert landed(warehouse, 3, 4, up_to=4) == 2
    assert held(warehouse) == []


def test_an_event_that_another_attempt_gives_another_position_stands_there_alone(warehouse: Warehouse) -> None:
    unreadable((3, "a"), warehouse=warehouse)
    RawEvents.open(warehouse).skip_to(CHANNEL, 3)  # what died had not committed, so its position was free
    unreadable((4, "a"), warehouse=warehouse)
    assert landed(warehouse, up_to=4) == 1
    assert held(warehouse) == [(4, "a")]


def test_another_event_at_a_position_that_was_written_before_is_kept_too(warehouse: Warehouse) -> None:
    unreadable((3, "a"), warehouse=warehouse)
    assert unreadable((3, "b"), (4, "a"), warehouse=warehouse) == 2
    assert landed(warehouse, up_to=4) == 1
    assert held(warehouse) == [(3, "b"), (4, "a")]


def test_a_crash_after_the_commit_is_made_up_for_by_the_next_one(warehouse: Warehouse) -> None:
    unreadable((3, "a"), warehouse=warehouse)
    RawEvents.open(warehouse).commit(events(3), StreamCheckpoint(CHANNEL, 3, 3))
    assert held(warehouse) == [(3, "a")]
    assert landed(warehouse, 4, up_to=4) == 1
    assert held(warehouse) == []


def test_rows_beyond_the_checkpoint_may_be_those_of_an_attempt_at_work_and_stay(warehouse: Warehouse) -> None:
    unreadable((4, "a"), warehouse=warehouse)
    assert landed(warehouse, 3, up_to=3) == 0
    assert held(warehouse) == [(4, "a")]
    assert landed(warehouse, up_to=4) == 0
    assert held(warehouse) == [(4, "a")]


def test_an_event_whose_body_cannot_be_decoded_is_in_both(warehouse: Warehouse) -> None:
    unreadable((2, None), writer=f"{CHANNEL}:Account", warehouse=warehouse)
    unreadable((4, "a"), warehouse=warehouse)
    assert landed(warehouse, 3, up_to=4) == 0
    assert held(warehouse) == [(2, None), (4, "a")]
    assert unreadable((2, None), writer=f"{CHANNEL}:Account", warehouse=warehouse) == 0


def test_a_settled_quarantine_costs_no_commit(warehouse: Warehouse) -> None:
    unreadable((3, "a"), warehouse=warehouse)
    landed(warehouse, up_to=3)
    table = Table.open(warehouse, NAME)
    assert table is not None
    landed(warehouse, 4, up_to=4)
    again = Table.open(warehouse, NAME)
    assert again is not None
    assert again.version == table.version


def test_a_table_of_before_gets_the_column(warehouse: Warehouse) -> None:
    Table.open_or_create(warehouse, NAME, pa.schema(list(QUARANTINE)[:-1]))
    unreadable((3, "a"), warehouse=warehouse)
    assert held(warehouse) == [(3, "a")]
