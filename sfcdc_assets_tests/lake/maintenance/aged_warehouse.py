"""Years of commits in minutes: what a batch appends to each table, written into the tables' logs directly.

The commits have the form that the code gives them: a small file each, the positions, the metadata. What they hold is
applied, so the warehouse stands as it did: nothing is left to do in it, it is only older.
"""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.delta.data_files import DataFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.consistent_cuts import CONSISTENT_CUTS
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, Checkpoint
from sfcdc_assets.lake.tables.gap_reconciliation import LEDGER
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.text_values import TEXT_FIELDS

Action = Mapping[str, Any]
CHECKPOINT_EVERY = 2_000
"""delta-rs writes one with each hundredth commit; the last one is what counts."""
RECORD = "001000000000001AAA"
SECONDS_BETWEEN = 5


class AgedLog:
    """The log of one table, to be written on."""

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        table = Table.open(warehouse, name)
        assert table is not None
        self._warehouse, self._name = warehouse, name
        self._root = Path(warehouse.uri(name))
        self._next = table.version + 1

    def file(self, rows: pa.Table, statistics: Sequence[str], partition: Mapping[str, str] | None = None) -> Action:
        """Write a small file; the action that adds it."""
        folder = "".join(f"{name}={value}/" for name, value in (partition or {}).items())
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="none", write_statistics=False, use_dictionary=False)
        path = self._root / f"{folder}part-{uuid.uuid4()}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(sink.getvalue())
        (row,) = rows.to_pylist()
        known = {name: _json(row[name]) for name in statistics}
        stats = {"numRecords": 1, "minValues": known, "maxValues": known, "nullCount": dict.fromkeys(known, 0)}
        return _add(folder + path.name, len(sink.getvalue()), json.dumps(stats), partition or {})

    def copy(self, of: DataFile | Action) -> Action:
        """Write the same file again; the action that adds it."""
        assert not isinstance(of, DataFile)
        path = f"part-{uuid.uuid4()}.parquet"
        (self._root / path).write_bytes((self._root / of["path"]).read_bytes())
        return _add(path, of["size"], of["stats"], {})

    def commit(self, actions: Sequence[Action], transactions: Mapping[str, int], seconds_ago: float = 0.0) -> None:
        """One more."""
        info = {"timestamp": _now_ms(), "operation": "WRITE", "operationParameters": {"mode": "Append"}}
        lines = [
            {"commitInfo": info},
            *actions,
            *({"txn": {"appId": name, "version": version}} for name, version in transactions.items()),
        ]
        log = self._root / "_delta_log"
        path = log / f"{self._next:020}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (time.time() - seconds_ago,) * 2)
        if self._next % CHECKPOINT_EVERY == 0:
            self.checkpoint()
        self._next += 1

    def checkpoint(self) -> None:
        """Of the newest version; and the log is cleaned up, as with every hundredth commit."""
        table = Table.open(self._warehouse, self._name)
        assert table is not None
        table.checkpoint()
        log = self._root / "_delta_log"
        written = (log / f"{table.version:020}.json").stat().st_mtime
        for path in log.glob(f"{table.version:020}.checkpoint*"):
            os.utime(path, (written, written))  # which checkpoint is old enough is known by its time
        table.clean_log()


def age_raw_events(warehouse: Warehouse, channel: str, entity: str, commits: int) -> int:
    """An event a commit; returns the last position."""
    events = RawEvents.open(warehouse)
    log = AgedLog(warehouse, "raw_events")
    checkpoint = replace(events.stored_checkpoint(channel), open_from=0)
    first = checkpoint.position + 1
    schema = pa.schema([RAW_EVENTS.field(name) for name in _WRITTEN])
    for position in range(first, first + commits):
        at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=SECONDS_BETWEEN * position)
        row = {
            "channel": channel,
            "position": position,
            "event_id": str(position),
            "record_ids": [RECORD],
            "change_type": "UPDATE",
            "commit_timestamp": at,
            "received_at": at,
        }
        rows = pa.Table.from_pylist([row], schema=schema)
        action = log.file(rows, [name for name in _WRITTEN if name != "record_ids"], {"entity_name": entity})
        landed = replace(checkpoint, position=position, complete_position=position)
        log.commit([action], landed.versions(channel), (first + commits - 1 - position) * SECONDS_BETWEEN)
    return first + commits - 1


def age_entity(warehouse: Warehouse, channel: str, entity: str, up_to: int, commits: int) -> None:
    """What as many batches leave in the entity's tables and among the cuts; the last one applied up to a position."""
    taken = Table.open(warehouse, f"snapshot/{entity}")
    assert taken is not None
    read = taken.transaction_version("refetch") or 0
    state = Table.open(warehouse, f"current_state/{entity}")
    assert state is not None
    batch = Checkpoint.of(state, channel).batch
    for name, files in _batches(warehouse, entity, commits, read, batch):
        log = AgedLog(warehouse, name)
        for number, actions in enumerate(files, 1):
            done = {
                "snapshot": {"refetch": read + number},
                "gap_reconciliation": {channel: up_to - commits + number},
                "current_state": {
                    channel: up_to - commits + number,
                    "refetch": read + number,
                    BATCH: batch + number,
                },
            }
            log.commit(actions(log), done.get(name.partition("/")[0], {BATCH: batch + number}))
    versions = {f"{layer}/{entity}": commits for layer in ("current_state", "history", "text_fields")}
    cuts = AgedLog(warehouse, "consistent_cuts")
    for position in range(up_to - commits + 1, up_to + 1):
        row = {
            "channel": channel,
            "position": position,
            "commit_timestamp": datetime.now(UTC),
            "tables": list(versions.items()),
            "applied_at": datetime.now(UTC),
        }
        known = ["channel", "position", "commit_timestamp", "applied_at"]
        cuts.commit([cuts.file(pa.Table.from_pylist([row], schema=CONSISTENT_CUTS), known)], {channel: position})


def _batches(
    warehouse: Warehouse, entity: str, commits: int, read: int, batch: int
) -> Iterator[tuple[str, Iterator[Any]]]:
    """Table -> for each commit, what makes its actions."""

    def texts(log: AgedLog, number: int) -> list[Action]:
        row = {"record_id": RECORD, "field": "Description", "position": number, "value": "x", "origin": "full"}
        rows = pa.Table.from_pylist([{**row, "_batch": batch + number}], schema=TEXT_FIELDS)
        return [log.file(rows, ["record_id", "position", "_batch"])]

    def versions(log: AgedLog, number: int) -> list[Action]:
        row = {"Id": RECORD, "_position": number, "_superseded_at": number + 1, "_batch": batch + number}
        schema = pa.schema([("Id", pa.string()), *((name, pa.int64()) for name in row if name != "Id")])
        return [log.file(pa.Table.from_pylist([row], schema=schema), list(row))]

    def suspects(log: AgedLog, number: int) -> list[Action]:
        row = {"record_id": RECORD, "reason": "gap", "opened_position": number, "status": "healed", "attempts": 0}
        return [log.file(pa.Table.from_pylist([row], schema=LEDGER), ["record_id", "opened_position", "status"])]

    def reads(log: AgedLog, number: int) -> list[Action]:
        row = {"Id": RECORD, "_refetch": read + number, "_position": number}
        schema = pa.schema([("Id", pa.string()), ("_refetch", pa.int64()), ("_position", pa.int64())])
        return [
            log.file(pa.Table.from_pylist([row], schema=schema), ["Id", "_refetch", "_position"], {"_snapshot": "0"})
        ]

    appended = {"text_fields": texts, "gap_reconciliation": suspects, "snapshot": reads, "history": versions}
    for layer, make in appended.items():
        yield f"{layer}/{entity}", (lambda log, n=n, make=make: make(log, n) for n in range(1, commits + 1))
    yield f"current_state/{entity}", _swaps(warehouse, f"current_state/{entity}", commits)


def _swaps(warehouse: Warehouse, name: str, commits: int) -> Iterator[Any]:
    """A batch that writes the first file again, again and again."""
    table = Table.open(warehouse, name)
    assert table is not None
    first = table.files()[0]
    known = {key.removeprefix("min."): value for key, value in first.statistics.items() if key.startswith("min.")}
    ends = {key.removeprefix("max."): value for key, value in first.statistics.items() if key.startswith("max.")}
    stats = {"numRecords": first.rows, "minValues": _of(known), "maxValues": _of(ends), "nullCount": {}}
    present = [{"path": first.path, "size": first.size, "stats": json.dumps(stats)}]

    def swap(log: AgedLog) -> list[Action]:
        added = log.copy(present[0])
        removed = {"path": present[0]["path"], "dataChange": True, "deletionTimestamp": _now_ms(), "size": first.size}
        present[0] = dict(added["add"])
        return [{"remove": removed}, added]

    for _ in range(commits):
        yield swap


def _add(path: str, size: int, statistics: str, partition: Mapping[str, str]) -> Action:
    noted = {"path": path, "partitionValues": dict(partition), "size": size, "modificationTime": _now_ms()}
    return {"add": {**noted, "dataChange": True, "stats": statistics}}


def _of(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _json(value) for name, value in values.items() if value is not None}


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value


def _now_ms() -> int:
    return int(time.time() * 1000)


_WRITTEN = ("channel", "position", "event_id", "record_ids", "change_type", "commit_timestamp", "received_at")
