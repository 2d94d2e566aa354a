"""Events are known again by their keys, for as long as Salesforce may send them again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.landed_keys import WINDOW_MS, LandedKeys
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.typed_events.event_rows import event_rows
from sfcdc_assets.typed_events.typed_event import TypedEvent, event_key

CHANNEL = "/u/Orders"
NOW_MS = 1_700_000_000_000


def event(name: str, received_ms: int = NOW_MS) -> DeliveredEvent:
    return DeliveredEvent(name, "", b"{}", name.encode(), received_ms)


def key(name: str) -> str:
    return event_key(event(name), TypedEvent())


class _Unread:
    """A table without rows."""

    def scan(self, columns: list[str], predicate: str) -> pa.Table:
        return pa.table({"event_key": pa.array([], pa.string())})


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=8), max_size=12))
def test_each_key_is_new_once_over_any_batches(batches: list[list[str]]) -> None:
    keys, met, position = LandedKeys(), set[str](), 0
    for batch in batches:
        is_new = keys.unseen(_Unread(), position, [key(name) for name in batch], NOW_MS)  # type: ignore[arg-type]
        new = [name for name, wanted in zip(batch, is_new, strict=True) if wanted]
        assert new == [name for name in dict.fromkeys(batch) if name not in met]
        met.update(batch)
        position += len(new)
        keys.note([key(name) for name in new], position)


def test_what_others_landed_is_read_from_the_table_and_old_keys_are_not_looked_for(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    keys = LandedKeys()
    table = EventTable.open_or_create(warehouse, CHANNEL)
    assert keys.unseen(table.table, 0, [key("a"), key("b")], NOW_MS) == [True, True]
    old = event("old", NOW_MS - WINDOW_MS - 1000)
    rows = event_rows(CHANNEL, 1, [old, event("a")], [TypedEvent(), TypedEvent()], table.table.schema)
    table.commit(rows, StreamCheckpoint(CHANNEL, 2, 2))
    opened = EventTable.open_or_create(warehouse, CHANNEL).table
    assert keys.unseen(opened, 2, [key("a"), key("b"), key("old")], NOW_MS) == [False, True, True]
