"""After a break of the channel's order the stream is begun at its earliest event, and may bring what was landed before.

So it is when the channel is read by another protocol from now on, or when a replay id was refused that was not old. An
event is known again by what its header says, which is the same in every form; its ids and bytes are the protocol's. One
without a readable header is known by these, so that another protocol lands it again, in quarantine. Apart from that
nothing is landed twice (guarantee 3), and history does not go through old changes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sfcdc_assets.change_events.change_event import ChangeEventHeader
from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.payload_form import header_of_payload
from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.tables.erasure_receipts import ErasedRecords, erased_records
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.lake.tables.quarantine import deliveries
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent

_Identity = tuple[object, ...]
_IDENTITY = ("record_ids", "entity_name", "change_type", "transaction_key", "sequence_number", "commit_number")

_OUT_OF_ORDER_MS = 15 * 60_000
"""Transactions come in the order of their ends, and their commit timestamps may be of their beginnings."""


class LandedBefore:
    """What a channel brought before its checkpoint was last lost; remembers where that was, and until when.

    One that another process lost since is noticed: the channel stands elsewhere than this one left it.
    """

    def __init__(self, warehouse: Warehouse, channel: str) -> None:
        self._warehouse = warehouse
        self._channel = channel
        self._stands_at: int | None = None
        self._broken_at = 0
        self._until: datetime | None = None

    def without(
        self,
        raw_events: RawEvents,
        before: StreamCheckpoint,
        events: Sequence[DeliveredEvent],
        schema_of: Callable[[str], Mapping[str, Any] | None],
    ) -> Sequence[DeliveredEvent]:
        """Return the events without those that were landed before the break; all of them where there was none, and once
        the stream has come past what was landed: what is new may lie between what is not. `schema_of`: a schema by its
        id, None where it is not known; headers are read with it as landing reads them, because a later release's may
        have kinds of changes of its own."""
        if not before.position or not events:
            return events
        if before.position != self._stands_at:
            self._look(raw_events)
        if not self._broken_at:
            return events
        heads = [_header(event, schema_of(event.schema_id)) for event in events]
        unread = [event for event, head in zip(events, heads, strict=True) if head is None]
        again = self._quarantined(unread) if unread else set()
        times = [head.commit_timestamp for head in heads if head is not None]
        landed: set[_Identity] = set()
        erased = ErasedRecords()
        if self._until is not None and times and min(times) <= epoch_ms(self._until) + _OUT_OF_ORDER_MS:
            erased = erased_records(self._warehouse)  # of these, a landed header has no ids any more
            landed = self._landed(raw_events, min(times), max(times), erased)
        if not again and not landed:
            return events
        return [
            event
            for event, head in zip(events, heads, strict=True)
            if (event not in again if head is None else _identity(head, erased) not in landed)
        ]

    def landed(self, after: StreamCheckpoint) -> None:
        """Note where the channel stands now."""
        self._stands_at = after.position

    def _look(self, raw_events: RawEvents) -> None:
        lost = lost_checkpoints(self._warehouse, self._channel)
        self._broken_at = lost[0].position if lost else 0
        self._until = raw_events.last_commit_timestamp(self._channel, self._broken_at) if lost else None

    def _quarantined(self, unread: Sequence[DeliveredEvent]) -> set[DeliveredEvent]:
        """Return which of the events without a readable header are in quarantine, landed before the break."""
        known = deliveries(self._warehouse, self._channel, 1, self._broken_at - 1)
        marks, with_ids = {each.mark for each in known}, {(each.replay_id, each.mark) for each in known}
        # Bytes without an id that is theirs alone may be those of another event.
        return {
            event
            for event in unread
            if (event.mark in marks if event.event_id else (event.replay_id, event.mark) in with_ids)
        }

    def _landed(self, raw_events: RawEvents, since_ms: int, until_ms: int, erased: ErasedRecords) -> set[_Identity]:
        since, until = (literal_time(utc(ms)) for ms in (since_ms, until_ms))
        rows = raw_events.table.scan(
            list(_IDENTITY),
            f"channel = {literal(self._channel)} and position < {self._broken_at} "
            f"and commit_timestamp >= {since} and commit_timestamp <= {until}",
        )
        return {
            (erased.others(row["record_ids"]), *(row[name] for name in _IDENTITY if name != "record_ids"))
            for row in rows.to_pylist()
        }


def _identity(head: ChangeEventHeader, erased: ErasedRecords) -> _Identity:
    return (
        erased.others(head.record_ids),
        head.entity_name,
        str(head.change_type),
        head.transaction_key,
        head.sequence_number,
        head.commit_number,
    )


def _header(event: DeliveredEvent, schema: Mapping[str, Any] | None) -> ChangeEventHeader | None:
    try:
        return header_of_payload(event.payload, schema)
    except HeaderError:
        return None
