"""Delivered events -> rows of `raw_events`, each with its checkpoint in the channel's order.

Pure: what was landed before (`StreamCheckpoint`) and what was delivered give the rows and the new place. Events are
landed as soon as they are taken; where the stream is resumed is the subscription's matter (`streams.resume`).

The protocol has no end marker: a transaction is complete when an event with another key follows, or when the caller
knows that nothing does (`complete`). The second copy of an earlier event ends none: it may come within a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfcdc_assets.change_events.batch.header_columns import HEADER_COLUMNS, UTC_TIMESTAMP
from sfcdc_assets.change_events.delivered_headers import read_headers
from sfcdc_assets.streams.checkpoint import StreamCheckpoint, open_from
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

Rows = npt.NDArray[np.int64]

RAW_EVENTS = pa.schema(
    [
        ("channel", pa.string()),
        ("position", pa.int64()),
        ("replay_id", pa.binary()),
        ("event_id", pa.string()),
        ("schema_id", pa.string()),
        ("payload", pa.binary()),
        *HEADER_COLUMNS,
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
"""One event that could not be decoded a row. `delivery` distinguishes an event without a readable header from any
other, by its replay id and contents; it is null for an event that `raw_events` has too without a readable body."""


@dataclass(frozen=True)
class LandedRows:
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
    landed_before: Callable[[Mapping[str, datetime]], Collection[str]] = lambda _: (),
) -> LandedRows:
    """Give each event its position and header columns.

    `schema_of` maps a schema id to its Avro schema, None when it is not known: a header in Avro is then read with the
    form Salesforce publishes. `resume` is where the stream goes on after `events`. `complete`: nothing follows that
    belongs to the last transaction. `landed_before`: of events (uuid -> when the org committed it, UTC) those that were
    landed before `events`. An event without a readable header goes to quarantine with a position of its own, so that
    the stream goes on and nothing is lost.
    """
    payloads = pa.array([event.payload for event in events], pa.binary())
    headers, errors = read_headers(events, payloads, schema_of)
    positions = checkpoint.position + 1 + np.arange(len(events))
    readable = np.flatnonzero([error is None for error in errors])
    quarantined = [
        {
            "channel": checkpoint.channel,
            "position": int(positions[number]),
            "schema_id": events[number].schema_id,
            "payload": events[number].payload,
            "error": error,
            "delivery": f"{events[number].replay_id.hex()}.{events[number].mark}",
        }
        for number, error in enumerate(errors)
        if error is not None
    ]
    rows = _rows(checkpoint.channel, positions, events, payloads)
    if quarantined:
        rows = rows.take(pa.array(readable))
    rows = pa.table(dict(zip(rows.column_names + headers.column_names, rows.columns + headers.columns, strict=True)))
    last = checkpoint.position + len(events)
    own = _without_copies(checkpoint, rows, landed_before)
    keys = own["transaction_key"].to_pylist()
    landed = replace(
        checkpoint,
        position=last,
        transaction_key=keys[-1] if keys else checkpoint.transaction_key,
        resume=resume,
        complete_position=last if complete else completed_by(checkpoint, own["position"].to_pylist(), keys),
        open_from=open_from(checkpoint, events, resume),
    )
    return LandedRows(rows.select(RAW_EVENTS.names), pa.Table.from_pylist(quarantined, schema=QUARANTINE), landed)


def _without_copies(
    checkpoint: StreamCheckpoint, rows: pa.Table, landed_before: Callable[[Mapping[str, datetime]], Collection[str]]
) -> pa.Table:
    """Return position and transaction key of the rows (`RAW_EVENTS`) but for those of a transaction that was there
    before: where another one comes in between, the first of them is a second copy."""
    keys, ids = rows["transaction_key"].to_pylist(), rows["event_id"].to_pylist()
    begins = [
        number for number, (before, key) in enumerate(pairwise([checkpoint.transaction_key, *keys])) if before != key
    ]
    times = rows["commit_timestamp"].take(pa.array(begins, pa.int64())).to_pylist()
    known = landed_before({ids[number]: time for number, time in zip(begins, times, strict=True)})
    first = {event_id: number for number, event_id in reversed(list(enumerate(ids)))}
    own = np.ones(len(keys), bool)
    for begin, end in pairwise([*begins, len(keys)]):
        own[begin:end] = ids[begin] not in known and first[ids[begin]] == begin
    return rows.select(["position", "transaction_key"]).filter(pa.array(own))


def completed_by(checkpoint: StreamCheckpoint, positions: Sequence[int], keys: Sequence[str]) -> int:
    """Return the last position that ends a transaction, once events with these positions and transaction keys are
    landed: one that begins ends the one before it."""
    begins = [
        number for number, (before, key) in enumerate(pairwise([checkpoint.transaction_key, *keys])) if before != key
    ]
    return positions[begins[-1]] - 1 if begins else checkpoint.complete_position


def _rows(channel: str, positions: Rows, events: Sequence[DeliveredEvent], payloads: pa.Array) -> pa.Table:
    """Return the columns that do not come from headers."""
    received = np.array([event.received_at_ms for event in events], np.int64) * 1000
    return pa.table(
        {
            "channel": pa.repeat(pa.scalar(channel, pa.string()), len(events)),
            "position": pa.array(positions, pa.int64()),
            "replay_id": pa.array([event.replay_id for event in events], pa.binary()),
            "event_id": pa.array([event.event_id for event in events], pa.string()),
            "schema_id": pa.array([event.schema_id for event in events], pa.string()),
            "payload": payloads,
            "received_at": pa.array(received).cast(UTC_TIMESTAMP),
        }
    )
