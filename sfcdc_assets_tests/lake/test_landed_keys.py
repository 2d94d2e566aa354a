"""Events are known again by their keys, for as long as Salesforce may send them again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.event_channels.event_rows import event_rows
from sfcdc_assets.event_channels.typed_event import TypedEvent, event_key
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landed_table import WINDOW_MS, LandedKeys
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent

CHANNEL = "/u/Orders"
NOW_MS = 1_700_000_000_000


def event(name: str, received_ms: int = NOW_MS) -> DeliveredEvent:
    return DeliveredEvent(name, "", b"{}", name.encode(), received_ms)


def key(name: str) -> str:
    return event_key(event(name), TypedEvent())


class _Unread:
    """A table without rows."""

    def scan(self, columns: list[str], predicate: str) -> pa.Table:
        return pa.table(
            {"event_key": pa.array([], pa.string()), "received_at": pa.array([], pa.timestamp("us", "UTC"))}
        )


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=8), max_size=12))
def test_each_key_is_new_once_over_any_batches(batches: list[list[str]]) -> None:
    keys, met, position = LandedKeys(), set[str](), 0
    for batch in batches:
        is_new = keys.unseen(_Unread(), position, [key(name) for name in batch], NOW_MS)  # type: ignore[arg-type]
        new = [name for name, wanted in zip(batch, is_new, strict=True) if wanted]
        assert new == [name for name in dict.fromkeys(batch) if name not in met]
        met.update(batch)
        position += len(new)
        keys.note([key(name) for name in new], position, NOW_MS)


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


def test_what_keys_take_in_memory_stays_the_same_however_long_a_channel_is_read() -> None:
    keys, day_ms, a_day, position, sizes = LandedKeys(), 86_400_000, 2_000, 0, []
    for day in range(60):
        for part in range(4):
            names = [f"{day}/{part}/{number}" for number in range(a_day // 4)]
            new = [key(name) for name in names]
            now_ms = NOW_MS + day * day_ms + part * day_ms // 4
            assert all(keys.unseen(_Unread(), position, new, now_ms))  # type: ignore[arg-type]
            position += len(new)
            keys.note(new, position, now_ms)
        sizes.append(keys.size)
    days = WINDOW_MS // day_ms
    assert max(sizes) <= 16 * a_day * (days + 1)
    assert sizes[-1] == sizes[days + 1]


def test_a_key_is_known_for_as_long_as_its_event_may_come_again() -> None:
    keys = LandedKeys()
    keys.note([key("a")], 1, NOW_MS)
    for day in range(WINDOW_MS // 86_400_000 + 1):
        now_ms = NOW_MS + day * 86_400_000
        assert keys.unseen(_Unread(), 1, [key("a"), key("b")], now_ms) == [False, True]  # type: ignore[arg-type]
