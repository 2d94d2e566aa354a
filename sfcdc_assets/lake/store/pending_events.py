"""What a channel has delivered and the warehouse has not landed yet, kept beside the tables over processes.

Salesforce charges every delivery. So a reading leaves a note here before it asks for events, which shows that the
warehouse takes a write at all, and removes it when all that it was sent is landed. If landing fails, the note gets the
events themselves: whoever reads the channel next lands these, and asks for no event before that is done. A note without
events that is found is that of a process that ended in between.

A note is one small file a channel, which is there only for these moments; nothing depends on it but what is charged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from socket import gethostname
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sfcdc_assets.lake.store.notes import put_note, remove_note
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import FROM_STORE
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import folder_of, kind_of
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

FOLDER = "pending_events"
_EVENTS = pa.schema(
    [
        ("event_id", pa.string()),
        ("schema_id", pa.string()),
        ("payload", pa.binary()),
        ("replay_id", pa.binary()),
        ("received_at_ms", pa.int64()),
    ]
)
_NOTE, _RESERVE = b"sfcdc.note", b"sfcdc.reserve"


@dataclass(frozen=True)
class PendingEvents:
    """What one reading noted: `events` that were delivered next after the checkpoint `before` and are not landed;
    `resume` where the stream goes on after them; `complete` whether the service said that nothing follows. `readings`:
    of how many readings in a row such a note stayed behind; `reason` why the events could not be landed; `needed`:
    bytes for which there was no room when a note was to have events; `process`: who wrote the note, as host and number.
    Times are epoch ms, UTC."""

    before: StreamCheckpoint
    events: tuple[DeliveredEvent, ...] = ()
    resume: ResumePoint = field(default_factory=ResumePoint)
    complete: bool = False
    readings: int = 1
    noted_at_ms: int = 0
    reason: str = ""
    needed: int = 0
    process: str = field(default_factory=lambda: f"{gethostname()}:{os.getpid()}")

    @property
    def is_of_another(self) -> bool:
        """Whether the process that wrote the note is at work on this host, beside this one."""
        host, _, number = self.process.rpartition(":")
        if host != gethostname() or not number.isdigit() or int(number) == os.getpid():
            return False
        try:
            os.kill(int(number), 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            return True  # it is another user's
        return True


def path_of(channel: str) -> str:
    """Return the channel's note, below the warehouse."""
    return f"{FOLDER}/{kind_of(channel)}-{folder_of(channel)}.parquet"


def read_pending(warehouse: Warehouse, channel: str) -> PendingEvents | None:
    """Return the channel's note; None where there is none, or none that can be read: then what was in it is delivered
    again. Raises `StoreRefused` and `StoreUnavailable`."""
    try:
        rows = _rows_at(warehouse, path_of(channel))
        note = json.loads((rows.schema.metadata or {})[_NOTE])
        before = StreamCheckpoint(**{**note["before"], "resume": _resume(note["before"]["resume"])})
        events = tuple(DeliveredEvent(**row) for row in rows.to_pylist())
        return PendingEvents(**{**note, "before": before, "resume": _resume(note["resume"]), "events": events})
    except FileNotFoundError:
        return None
    except (*FROM_STORE, KeyError, TypeError, ValueError):
        return None


def _rows_at(warehouse: Warehouse, path: str) -> pa.Table:
    with store_refusals(warehouse.root), warehouse.filesystem("").open_input_file(path) as file:
        return pq.read_table(pa.BufferReader(file.read()))


def remove_pending_with(warehouse: Warehouse, texts: Collection[bytes]) -> int:
    """Remove the notes of channels that have an event with one of these texts in its payload: they are delivered again.
    Returns how many notes that were. Raises `StoreRefused` and `StoreUnavailable`."""
    filesystem, done = warehouse.filesystem(""), 0
    for info in filesystem.get_file_info(fs.FileSelector(FOLDER, allow_not_found=True)):
        try:
            payloads = _rows_at(warehouse, info.path)["payload"].to_pylist()
        except (*FROM_STORE, KeyError):
            payloads = []  # nobody reads it either
        if any(text in payload for payload in payloads for text in texts):
            remove_note(warehouse, info.path)
            done += 1
    return done


def note_pending(warehouse: Warehouse, channel: str, pending: PendingEvents, *, reserves: bool = False) -> None:
    """Write the channel's note in the place of the one before. `reserves`: it takes up as much as will be needed, so
    that there will be room for events in its place. Raises `WarehouseNotWritable`, `StoreRefused` and
    `StoreUnavailable`."""
    rows = pa.Table.from_pylist([event._asdict() for event in pending.events], schema=_EVENTS)
    head = {each.name: getattr(pending, each.name) for each in fields(pending) if each.name != "events"}
    head |= {"before": _plain(pending.before), "resume": _plain(pending.resume)}
    sink = pa.BufferOutputStream()
    filled = {_NOTE: json.dumps(head), _RESERVE: b" " * (pending.needed if reserves else 0)}
    pq.write_table(rows.replace_schema_metadata(filled), sink, compression="zstd")
    put_note(warehouse, path_of(channel), sink.getvalue())


def remove_pending(warehouse: Warehouse, channel: str) -> None:
    """Remove the channel's note, if there is one. Raises what `note_pending` raises."""
    remove_note(warehouse, path_of(channel))


def _plain(value: StreamCheckpoint | ResumePoint) -> dict[str, object]:
    """Return a value as JSON has it: ids in hex."""
    facts = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: _plain(fact) if isinstance(fact, ResumePoint) else _hex(fact) for name, fact in facts.items()}


def _hex(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _resume(plain: Mapping[str, Any]) -> ResumePoint:
    ids = {name: bytes.fromhex(plain[name]) for name in ("replay_id", "open_id") if plain[name] is not None}
    return ResumePoint(known_at_ms=plain["known_at_ms"], open_marks=tuple(plain["open_marks"]), **ids)
