"""The commits of the program, read from the logs of its tables: nothing is written for it that is not there already.

Every commit carries what its table remembers as transaction versions, so that a log says of each what a step of the
model says. In a process whose commits are watched (`recorded`), each is read right after it was made, before anybody
cleans up logs; of a warehouse that others wrote, all that its logs still have, in the order of the commits' times.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.transaction_versions import bytes_of, commit_file
from sfcdc_assets.lake.tables.consistent_cuts import NAME as CUTS
from sfcdc_assets.lake.tables.open_suspect import ENTITY
from sfcdc_assets.lake.tables.raw_events import NAME as RAW_EVENTS
from sfcdc_assets.lake.tables.snapshot_checkpoint import ENTRY, SnapshotEntry
from sfcdc_assets.lake.tables.snapshot_reads import READ_BACK
from sfcdc_assets.lake.tables.stream_checkpoint import STARTS
from sfcdc_assets.streams.checkpoint import LATEST
from sfcdc_assets_tests.model.relation import (
    Appended,
    CleanedUp,
    Commit,
    Committed,
    CutNoted,
    Event,
    Followed,
    Landed,
    NotAllowed,
    ReadBegun,
    ReadDone,
    Suspected,
)

WATERMARK = "watermark on "
LAYERS = ("current_state", "history", "snapshot", "gap_reconciliation")


@dataclass
class Log:
    """A table's log, and how far it was read. `numbers`: all transaction versions up to there."""

    name: str
    folder: Path
    version: int = -1
    numbers: dict[str, int] = field(default_factory=dict)

    def commits(self) -> Iterator[TableCommit]:
        """Yield the commits that were not read yet, but for those that were cleaned up: before this log was ever read,
        or such as another client has made."""
        while (path := self._next()) is not None:
            follows, self.version = self.version + 1, int(path.stem)
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            set_now = {each["txn"]["appId"]: each["txn"]["version"] for each in actions if "txn" in each}
            self.numbers |= set_now
            info: dict[str, Any] = next((each["commitInfo"] for each in actions if "commitInfo" in each), {})
            added = tuple(each["add"] for each in actions if "add" in each)
            is_replaced = info.get("operationParameters", {}).get("mode") == "Overwrite"
            at_ms, numbers = info.get("timestamp", 0), dict(self.numbers)
            later = self._next()
            cleaned_up = (self.version > follows, later is not None and int(later.stem) > self.version + 1)
            yield TableCommit(self, self.version, at_ms, set_now, numbers, added, is_replaced, cleaned_up)

    def begin_again(self) -> bool:
        """Return whether the table was removed and there is another, which is then read from its beginning: it has a
        first commit, and not the last one that was read."""
        is_another = self._has(0) and not self._has(max(self.version, 0))
        if is_another:
            self.version = -1
            self.numbers.clear()
        return is_another

    def _has(self, version: int) -> bool:
        return (self.folder / commit_file(version)).exists()

    def _next(self) -> Path | None:
        path = self.folder / commit_file(self.version + 1)
        if path.exists():
            return path
        later = (each for each in (self.folder / "_delta_log").glob("*.json") if int(each.stem) > self.version)
        return min(later, default=None)


@dataclass(frozen=True)
class TableCommit:
    """One commit. `set_now`: the transaction versions that it has, `numbers` all that hold after it, as far as the log
    has them. `cleaned_up`: whether the log has not the commit before it, and the one after it, though later ones."""

    log: Log
    version: int
    at_ms: int
    set_now: Mapping[str, int]
    numbers: Mapping[str, int]
    added: tuple[Mapping[str, Any], ...]
    is_replaced: bool
    cleaned_up: tuple[bool, bool] = (False, False)

    def rows(self, columns: list[str]) -> list[dict[str, Any]]:
        """Return what it added, as far as it is still there."""
        found: list[dict[str, Any]] = []
        for each in self.added:
            path = self.log.folder / unquote(each["path"])
            if each.get("dataChange", True) and path.exists():
                file = pq.ParquetFile(path)
                present = [name for name in columns if name in file.schema_arrow.names]
                rows = file.read(present).to_pylist()
                found += [{**dict.fromkeys(columns), **row, **each.get("partitionValues", {})} for row in rows]
        return found


def commits_of(commit: TableCommit) -> Iterator[Commit]:
    """Yield what a commit of a table is in the model; nothing where the model does not have its table."""
    layer, _, entity = commit.log.name.partition("/")
    before, after = commit.cleaned_up
    if before:
        yield from cleaned_up(commit.log.name)
    if commit.log.name == RAW_EVENTS:
        yield from _landed(commit)
    elif layer == "current_state":
        yield from _committed(commit, entity)
    elif layer == "history":
        is_rebuilt = commit.is_replaced or "batch" not in commit.set_now
        yield Appended(entity, commit.numbers.get("batch", 0), commit.version, is_rebuilt=is_rebuilt)
    elif layer == "snapshot":
        yield from _read(commit, entity)
    elif layer == "gap_reconciliation":
        yield from _suspected(commit, entity)
    elif commit.log.name == CUTS:
        yield from _cuts(commit)
    if after:
        yield from cleaned_up(commit.log.name)


def cleaned_up(name: str) -> Iterator[Commit]:
    """Yield what it is in the model that commits of a table are gone."""
    layer, _, entity = name.partition("/")
    if layer in ("current_state", "history"):
        yield CleanedUp(entity, of_history=layer == "history")


def _landed(commit: TableCommit) -> Iterator[Commit]:
    columns = ["channel", "position", "replay_id", "transaction_key", "entity_name", "event_id", "payload"]
    for channel in (name for name in commit.set_now if "#" not in name and f"{name}#complete" in commit.set_now):

        def number(name: str, channel: str = channel) -> int:
            return commit.numbers.get(f"{channel}#{name}", 0)

        events = {
            row["position"]: Event(
                row["replay_id"],
                row["transaction_key"],
                row["entity_name"],
                (row["event_id"], sha256(row["payload"] or b"").hexdigest()),
            )
            for row in commit.rows(columns)
            if row["channel"] == channel
        }
        # A break gives out a position of its own, and knows no beginning any more.
        is_break = not events and number("begun") == 0 and not number("replay_id") and commit.set_now[channel] > 0
        resume = bytes_of("replay_id", number) or None
        yield Landed(
            channel,
            commit.set_now[channel],
            number("complete"),
            resume,
            number("open_from"),
            events,
            is_break=is_break,
            is_from_latest=STARTS[number("begun")] == LATEST,
        )


def _channel_of(numbers: Iterable[str]) -> str:
    return next((name for name in numbers if name.startswith("/")), "")


def _committed(commit: TableCommit, entity: str) -> Iterator[Commit]:
    numbers = commit.numbers
    channel = _channel_of(commit.set_now) or _channel_of(numbers)
    yield Committed(
        entity,
        channel,
        commit.version,
        numbers.get(channel, 0),
        numbers.get("batch", 0),
        numbers.get("snapshot", 0),
        numbers.get("refetch", 0),
        numbers.get("rolled_back_in", 0),
        numbers.get("rolled_back_to", 0),
        numbers.get("built_at", 0),
    )


def _read(commit: TableCommit, entity: str) -> Iterator[Commit]:
    entries = [SnapshotEntry.from_json(row[ENTRY]) for row in commit.rows([ENTRY]) if row[ENTRY]]
    for entry in entries:
        progress = entry.progress
        if entry.counts:
            yield ReadDone(entity, progress.channel, entry.number, entry.position, whole=True)
        elif not progress.rows_done and not progress.complete:
            yield ReadBegun(entity, progress.channel, entry.number, entry.position)
    counted = [name for name in commit.set_now if name.startswith(WATERMARK)]
    if counted and not entries:  # packed into another file since, and gone
        for name in counted:
            yield ReadDone(entity, name.removeprefix(WATERMARK), commit.set_now[name], None, whole=True)
    elif "refetch" in commit.set_now and not entries:
        rows = [row for row in commit.rows(["_position", "_snapshot"]) if row["_snapshot"] == str(READ_BACK)]
        watermark = max((row["_position"] for row in rows), default=0)
        channel = next((name.removeprefix(WATERMARK) for name in commit.numbers if name.startswith(WATERMARK)), "")
        yield ReadDone(entity, channel, commit.set_now["refetch"], watermark, whole=False)


def _suspected(commit: TableCommit, entity: str) -> Iterator[Commit]:
    rows = commit.rows(["record_id", "opened_position", "channel"])
    found = tuple(row["opened_position"] for row in rows if row["record_id"] == ENTITY)
    if found:
        yield Suspected(entity, rows[0]["channel"] or "", found)


def _cuts(commit: TableCommit) -> Iterator[Commit]:
    for channel in commit.set_now:
        rows = [row for row in commit.rows(["channel", "position", "tables", "lagging"]) if row["channel"] == channel]
        for row in rows:
            tables = dict(row["tables"])
            versions = {
                entity: (version, tables.get(f"history/{entity}", -1))
                for path, version in tables.items()
                for layer, _, entity in (path.partition("/"),)
                if layer == "current_state"
            }
            lagging = frozenset(each["entity"] for each in row["lagging"] or ())
            yield CutNoted(channel, row["position"], versions, lagging)


def read_trace(root: Path) -> list[Commit]:
    """Return what the logs of a warehouse's tables still have, in the order of the commits' times."""
    of_entities = (f"{path.parent.name}/{path.name}" for layer in LAYERS for path in (root / layer).glob("*"))
    names = (RAW_EVENTS, CUTS, *of_entities)
    found = [commit for name in names for commit in Log(name, root / name).commits()]
    begun_late = [each for name in names if not (root / name / commit_file(0)).exists() for each in cleaned_up(name)]
    in_order = (each for commit in sorted(found, key=lambda each: each.at_ms) for each in commits_of(commit))
    return [*begun_late, *in_order]


@contextmanager
def recorded(followed: Followed) -> Iterator[None]:
    """Follow every commit of this process right after it, of all processes that are played in it. The first that the
    model does not allow is raised at the end, so that the program does not meet it as a failure of its own."""
    logs: dict[Path, Log] = {}
    committing = Table._committing
    refused: list[NotAllowed] = []

    def follow(table: Table) -> None:
        folder = Path(unquote(urlsplit(table._delta.table_uri).path))
        if folder.name.startswith("rebuilt-"):
            return  # built beside the tables: nobody reads it
        log = logs.setdefault(folder, Log(table.name, folder))
        log.begin_again()
        # Layers are removed together; that of the rows, which is made again first, says from which batch on.
        rows = logs.get(folder.parent.parent / "current_state" / folder.name)
        try:
            for each in (rows, log) if rows is not None and rows.begin_again() else (log,):
                for commit in each.commits():
                    followed.take_all(commits_of(commit))
        except NotAllowed as error:
            refused.append(error)

    @contextmanager
    def commit(table: Table, *arguments: Any) -> Iterator[None]:
        with committing(table, *arguments):
            yield
        if not refused:
            follow(table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_committing", commit)
        yield
    if refused:
        raise refused[0]
