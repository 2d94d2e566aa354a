"""Delivered events -> rows of `raw_events`, each with its place in the channel's order.

Pure: what was landed before (`StreamPlace`) and what was delivered give the rows and the new place.
Two rules live here.

* A durable place lies only behind a COMPLETE replay id. Enriched events of one multi-record change share one replay id
  and the stream resumes strictly after an id (facts section 7), so the last group is held back until a later id or the
  stream's tip shows that it is whole.
* A transaction is complete when the next one starts or the stream is seen at its tip (guarantee 5); the stream has no
  end marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.header import ChangeEventHeader, HeaderError, read_header
from sfcdc_assets.pubsub.subscription import DeliveredEvent

UTC_TIMESTAMP = pa.timestamp("us", "UTC")

RAW_EVENTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("replay_id", pa.binary()),
        ("event_id", pa.string()),
        ("schema_id", pa.string()),
        ("payload", pa.binary()),
        ("entity_name", pa.string()),
        ("record_ids", pa.list_(pa.string())),
        ("change_type", pa.string()),
        ("transaction_key", pa.string()),
        ("sequence_number", pa.int32()),
        ("commit_timestamp", UTC_TIMESTAMP),
        ("commit_number", pa.int64()),
        ("commit_user", pa.string()),
        ("change_origin", pa.string()),
        ("received_at", UTC_TIMESTAMP),
    ]
)
"""One delivered event a row; the payload as received."""

QUARANTINE = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("schema_id", pa.string()),
        ("payload", pa.binary()),
        ("error", pa.string()),
    ]
)
"""One event that could not be decoded a row."""


@dataclass(frozen=True)
class StreamPlace:
    """How far a channel has been landed.

    `position` is the last position given out (0: none), dense per channel; `complete_position` the last one known to
    end a transaction; `replay_id` where the stream is resumed (None: never read); `transaction_key` that of the last
    landed event.
    """

    channel: str
    position: int = 0
    complete_position: int = 0
    replay_id: bytes | None = None
    transaction_key: str | None = None


@dataclass(frozen=True)
class Landed:
    """Rows for `raw_events` and `quarantine`, and the place to commit together with them."""

    rows: pa.Table
    quarantined: pa.Table
    place: StreamPlace


def hold_back_last_replay_id(
    events: Sequence[DeliveredEvent],
) -> tuple[Sequence[DeliveredEvent], Sequence[DeliveredEvent]]:
    """Split into the events whose replay ids are known to be complete, and the last, perhaps unfinished group."""
    cut = len(events)
    while cut and events[cut - 1].replay_id == events[-1].replay_id:
        cut -= 1
    return events[:cut], events[cut:]


def land(
    place: StreamPlace,
    events: Sequence[DeliveredEvent],
    schema_of: Callable[[str], Mapping[str, Any] | None],
    *,
    at_tip: bool,
    tip_replay_id: bytes | None = None,
) -> Landed:
    """Give each event its position and header columns.

    `events` are whole replay-id groups. `schema_of` maps a schema id to its Avro schema, None when it is not known: the
    header is then read with the form Salesforce publishes. With `at_tip` every landed transaction counts as complete
    and `tip_replay_id`, when given, becomes the resume point. An event without a readable header goes to quarantine
    with a position of its own, so that the stream goes on and nothing is lost.
    """
    rows: list[dict[str, object]] = []
    quarantined: list[dict[str, object]] = []
    for event in events:
        position = place.position + 1
        complete, key = place.complete_position, place.transaction_key
        try:
            header = read_header(event.payload, schema_of(event.schema_id))
        except HeaderError as error:
            quarantined.append(
                {
                    "channel": place.channel,
                    "position": position,
                    "schema_id": event.schema_id,
                    "payload": event.payload,
                    "error": str(error),
                }
            )
        else:
            if header.transaction_key != key:
                complete, key = place.position, header.transaction_key
            rows.append(_row(place.channel, position, event, header))
        place = replace(
            place, position=position, complete_position=complete, replay_id=event.replay_id, transaction_key=key
        )
    if at_tip:
        place = replace(
            place, complete_position=place.position, replay_id=tip_replay_id if tip_replay_id else place.replay_id
        )
    return Landed(
        pa.Table.from_pylist(rows, schema=RAW_EVENTS), pa.Table.from_pylist(quarantined, schema=QUARANTINE), place
    )


def _row(channel: str, position: int, event: DeliveredEvent, header: ChangeEventHeader) -> dict[str, object]:
    return {
        "channel": channel,
        "position": position,
        "replay_id": event.replay_id,
        "event_id": event.event_id,
        "schema_id": event.schema_id,
        "payload": event.payload,
        "entity_name": header.entity_name,
        "record_ids": list(header.record_ids),
        "change_type": str(header.change_type),
        "transaction_key": header.transaction_key,
        "sequence_number": header.sequence_number,
        "commit_timestamp": header.commit_timestamp * 1000,
        "commit_number": header.commit_number,
        "commit_user": header.commit_user,
        "change_origin": header.change_origin,
        "received_at": event.received_at_ms * 1000,
    }
