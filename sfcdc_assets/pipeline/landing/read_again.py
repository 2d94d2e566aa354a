"""After a break of the channel's order the stream is begun at its earliest event, and may bring what was landed before.

So it is when the channel is read by another protocol from now on, or when a replay id was refused that was not old. An
event is known again by what its header says, which is the same in every form; its ids and bytes are the protocol's. So
nothing is landed twice (guarantee 3), and history does not go through old changes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sfcdc_assets.change_events.change_event import ChangeEventHeader
from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.payload_form import header_of_payload
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent

_Identity = tuple[object, ...]


def not_landed_before(
    raw_events: RawEvents, before: StreamCheckpoint, events: Sequence[DeliveredEvent]
) -> Sequence[DeliveredEvent]:
    """The events without those that were landed before the break; all of them where there was none, or once one has
    been landed since. An event without a readable header is left as it is."""
    if before.transaction_key is not None or not before.position or not events:
        return events
    heads = [_header(event) for event in events]
    times = [head.commit_timestamp for head in heads if head is not None]
    if not times:
        return events
    landed = _landed(raw_events, before.channel, min(times))
    return [event for event, head in zip(events, heads, strict=True) if head is None or _identity(head) not in landed]


def _landed(raw_events: RawEvents, channel: str, since_ms: int) -> set[_Identity]:
    quoted, since = channel.replace("'", "''"), datetime.fromtimestamp(since_ms / 1000, UTC).isoformat()
    rows = raw_events.table.scan(
        ["entity_name", "record_ids", "change_type", "transaction_key", "sequence_number", "commit_number"],
        f"channel = '{quoted}' and commit_timestamp >= timestamp '{since}'",
    )
    return {
        (
            row["entity_name"],
            tuple(row["record_ids"]),
            row["change_type"],
            row["transaction_key"],
            row["sequence_number"],
            row["commit_number"],
        )
        for row in rows.to_pylist()
    }


def _identity(head: ChangeEventHeader) -> _Identity:
    return (
        head.entity_name,
        head.record_ids,
        str(head.change_type),
        head.transaction_key,
        head.sequence_number,
        head.commit_number,
    )


def _header(event: DeliveredEvent) -> ChangeEventHeader | None:
    try:
        return header_of_payload(event.payload)
    except HeaderError:
        return None
