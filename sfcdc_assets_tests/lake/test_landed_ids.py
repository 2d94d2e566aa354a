"""Events are known again by their ids, for as long as Salesforce may send them again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.landed_ids import WINDOW_MS, LandedIds
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.typed_events.event_rows import event_rows
from sfcdc_assets.typed_events.typed_event import TypedEvent

CHANNEL = "/u/Orders"
NOW_MS = 1_700_000_000_000


def event(name: str, received_ms: int = NOW_MS) -> DeliveredEvent:
    return DeliveredEvent(name, "", b"{}", name.encode(), received_ms)


class _Unread:
    """A table without rows."""

    def scan(self, columns: list[str], predicate: str) -> pa.Table:
        return pa.table({"event_id": pa.array([], pa.string())})


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=8), max_size=12))
def test_each_id_is_new_once_over_any_batches(batches: list[list[str]]) -> None:
    ids, met, position = LandedIds(), set[str](), 0
    for batch in batches:
        new = ids.unseen(_Unread(), position, [event(name) for name in batch], NOW_MS)  # type: ignore[arg-type]
        assert [each.event_id for each in new] == [name for name in dict.fromkeys(batch) if name not in met]
        met.update(batch)
        position += len(new)
        ids.note(new, position)


def test_what_others_landed_is_read_from_the_table_and_old_ids_are_forgotten(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    ids = LandedIds()
    table = EventTable.open_or_create(warehouse, CHANNEL)
    assert len(ids.unseen(table.table, 0, [event("a"), event("b")], NOW_MS)) == 2
    old = event("old", NOW_MS - WINDOW_MS - 1000)
    rows = event_rows(CHANNEL, 1, [old, event("a")], [TypedEvent(), TypedEvent()], table.table.schema)
    table.commit(rows, StreamCheckpoint(CHANNEL, 2, 2))
    found = ids.unseen(EventTable.open_or_create(warehouse, CHANNEL).table, 2, [event("a"), event("b"), old], NOW_MS)
    assert [each.event_id for each in found] == ["b", "old"]
