"""Delivered events -> rows of `raw_events`, each with its checkpoint in the channel's order.

Pure: what was landed before (`StreamCheckpoint`) and what was delivered give the rows and the new place. Events are
landed as soon as they are taken; where the stream is resumed is the subscription's matter (`streams.resume`).

The protocol has no end marker: a transaction is complete when an event with another key follows, or when the caller
knows that nothing does (`complete`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.change_event import ChangeEventHeader
from sfcdc_assets.change_events.errors import HeaderError
from sfcdc_assets.change_events.payload_form import header_of_payload
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

EARLIEST, LATEST = "EARLIEST", "LATEST"
"""Where a stream is begun that nothing is known of."""

PUBSUB, COMETD = "pubsub", "cometd"
"""Protocols that a channel can be read by."""

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
        ("delivery", pa.string()),
    ]
)
"""One event that could not be decoded a row. `delivery` tells an event without a readable header from any other, by its
replay id and contents; it is null for an event that `raw_events` has too, whose body could not be decoded."""


@dataclass(frozen=True)
class StreamCheckpoint:
    """How far a channel has been landed.

    `position` is the last position given out (0: none), dense per channel; `complete_position` the last one known to
    end a transaction; `resume` where the stream goes on; `transaction_key` that of the last landed event; `begun` where
    the stream was begun, EARLIEST or LATEST (None: not yet), and `begun_at_ms` when (epoch ms, UTC); `open_from` the
    position of the first event of the replay id that `resume` says may be unfinished (0: none is); `transport` the
    protocol whose replay ids these are.
    """

    channel: str
    position: int = 0
    complete_position: int = 0
    resume: ResumePoint = field(default_factory=ResumePoint)
    transaction_key: str | None = None
    begun: str | None = None
    begun_at_ms: int | None = None
    open_from: int = 0
    transport: str = PUBSUB

    @property
    def is_known(self) -> bool:
        """Whether all events from here on will come: nothing can have its watermark to a start at LATEST that has not
        shown where it was."""
        return self.resume.replay_id is not None or self.begun == EARLIEST


@dataclass(frozen=True)
class Landed:
    """Rows for `raw_events` and `quarantine`, and the place to commit together with them."""

    rows: pa.Table
    quarantined: pa.Table
    checkpoint: StreamCheckpoint


def land(
    checkpoint: StreamCheckpoint,
    events: Sequence[DeliveredEvent],
    schema_of: Callable[[str], Mapping[str, Any] | None],
    *,
    resume: ResumePoint,
    complete: bool,
) -> Landed:
    """Give each event its position and header columns.

    `schema_of` maps a schema id to its Avro schema, None when it is not known: a header in Avro is then read with the
    form Salesforce publishes. `resume` is where the stream goes on after `events`. `complete`: nothing follows that
    belongs to the last transaction. An event without a readable header goes to quarantine with a position of its own,
    so that the stream goes on and nothing is lost.
    """
    before = checkpoint
    rows: list[dict[str, object]] = []
    quarantined: list[dict[str, object]] = []
    for event in events:
        position = checkpoint.position + 1
        completed, key = checkpoint.complete_position, checkpoint.transaction_key
        try:
            header = header_of_payload(event.payload, schema_of(event.schema_id))
        except HeaderError as error:
            quarantined.append(
                {
                    "channel": checkpoint.channel,
                    "position": position,
                    "schema_id": event.schema_id,
                    "payload": event.payload,
                    "error": str(error),
                    "delivery": f"{event.replay_id.hex()}.{event.mark}",
                }
            )
        else:
            if header.transaction_key != key:
                completed, key = checkpoint.position, header.transaction_key
            rows.append(_row(checkpoint.channel, position, event, header))
        checkpoint = replace(checkpoint, position=position, complete_position=completed, transaction_key=key)
    checkpoint = replace(
        checkpoint,
        resume=resume,
        complete_position=checkpoint.position if complete else checkpoint.complete_position,
        open_from=_open_from(before, events, resume),
    )
    return Landed(
        pa.Table.from_pylist(rows, schema=RAW_EVENTS), pa.Table.from_pylist(quarantined, schema=QUARANTINE), checkpoint
    )


def _open_from(before: StreamCheckpoint, events: Sequence[DeliveredEvent], resume: ResumePoint) -> int:
    """Position of the first event of the replay id that may be unfinished; 0 where none is."""
    if resume.open_id is None:
        return 0
    if before.open_from and before.resume.open_id == resume.open_id:
        return before.open_from
    group = takewhile(lambda event: event.replay_id == resume.open_id, reversed(events))
    siblings = sum(1 for _ in group)
    return before.position + len(events) - siblings + 1 if siblings else 0


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
