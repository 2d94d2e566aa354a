"""A table that channels are landed in: rows, each with its position and replay id, and the `StoredCheckpoint` of each
channel, in one commit (guarantee 1)."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.lake.delta.commit_protocol import RUN_ID
from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.quarantine import Delivery
from sfcdc_assets.lake.tables.stream_checkpoint import StoredCheckpoint, begun, complete_position
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint

log = logging.getLogger(__name__)

WHOLE_NAME = 256
"""Bytes of a channel's name that the log keeps as a file's least and greatest one: all of it, so that the log alone
shows which channel a file is of."""

RECENT = 1_000
"""Positions among which the last event is looked for: some are given out without one."""


class LandedTable:
    """A handle on one snapshot of such a table; commits go through the snapshot whose checkpoint was read."""

    table: Table

    def stored_checkpoint(self, channel: str) -> StoredCheckpoint:
        """Return how far the channel has been landed, as of this snapshot; from the log alone."""
        return StoredCheckpoint.of(self.table, channel)

    def checkpoint(self, channel: str) -> StreamCheckpoint:
        """Return the checkpoint with the events that a stream which is resumed brings again, which the rows show: what
        a reader of the channel goes on from. Where these rows cannot be read the events are landed a second time, which
        changes nothing: a damaged file of one entity keeps from none of the others."""
        found = self.stored_checkpoint(channel)
        checkpoint = StreamCheckpoint(
            channel,
            found.position,
            found.complete_position,
            transaction_key=found.transaction_key or None,
            begun=found.begun,
            begun_at_ms=found.begun_at or None,
            transport=found.transport,
            repeats=found.repeats,
        )
        resume = ResumePoint(found.replay_id or None, found.known_at or None)
        with suppress(TableDamaged):
            taken = self._taken(channel, found)
            if taken:
                marks = tuple(each.mark for each in taken)
                open_group = replace(resume, open_id=taken[-1].replay_id, open_marks=marks)
                return replace(checkpoint, resume=open_group, open_from=found.open_from)
        return replace(checkpoint, resume=resume)

    def stands_at(self, channel: str) -> tuple[int, str | None]:
        """Return the channel's position, and where its stream was begun: whether it is where a reader left it."""
        return self.last_position(channel), begun(self.table, channel)

    def landed_at_ms(self, channel: str) -> int | None:
        """Return when the channel's checkpoint was last moved (ms, UTC)."""
        return self.stored_checkpoint(channel).landed_at or None

    def newest_received_ms(self, channel: str) -> int | None:
        """Return when the last event of the channel was received (ms, UTC); None where its last positions have none
        that can be read."""
        quoted, position = literal(channel), self.last_position(channel)
        with suppress(TableDamaged):
            rows = self.table.scan(["received_at"], f"channel = {quoted} and position > {position - RECENT}")
            if rows.num_rows:
                return epoch_ms(pc.max(rows["received_at"]).as_py())
        return None

    def last_position(self, channel: str) -> int:
        """Return the last position that was given out on the channel; 0 before the first."""
        return self.table.transaction_version(channel) or 0

    def complete_position(self, channel: str) -> int:
        """Position of the channel's last complete transaction; 0 before the first."""
        return complete_position(self.table, channel)

    def note(self, checkpoint: StreamCheckpoint) -> None:
        """Move the channel's checkpoint without rows. Raises `ConcurrentCommit`."""
        self.commit(self.table.schema.empty_table(), checkpoint)

    def lose_checkpoint(self, checkpoint: StreamCheckpoint) -> StreamCheckpoint:
        """Break the channel's order: a position of its own for the break, and no replay id to resume from."""
        position = checkpoint.position + 1
        broken = StreamCheckpoint(checkpoint.channel, position, position, repeats=checkpoint.repeats)
        self.note(broken)
        return broken

    def commit(
        self,
        rows: pa.Table,
        checkpoint: StreamCheckpoint,
        run_id: str = "",
        versions: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Rows, checkpoint and further transaction versions in one commit (guarantee 1), whose metadata names the run
        that landed them, if one did.

        Raises `ConcurrentCommit` when another process landed events of the channel since this snapshot.
        """
        stored = StoredCheckpoint.after(checkpoint, clock.now_ms())
        run = {RUN_ID: run_id} if run_id else {}
        noted = {**stored.versions(checkpoint.channel), **versions}
        self.table.append(rows, noted, run, statistics_bytes=WHOLE_NAME)

    def _taken(self, channel: str, checkpoint: StoredCheckpoint) -> list[Delivery]:  # noqa: ARG002 - for those that know
        """Return the events of the replay id that may be unfinished, in the order in which they came."""
        return []


WINDOW_MS = 5 * 24 * 3_600_000
"""Keys of events received earlier are not looked for: Salesforce keeps none for so long."""

TOGETHER_MS = 12 * 3_600_000
"""Keys of events received within the same half day are forgotten together."""

Digests = npt.NDArray[np.bytes_]


class LandedKeys:
    """The keys of one channel's table, read from it once and followed from then on. They are held by the half day in
    which their events were received, and forgotten with it: what they take in memory is that of `WINDOW_MS`."""

    def __init__(self) -> None:
        self._through = 0
        self._received: dict[int, list[Digests]] = {}

    def unseen(self, table: Table, position: int, keys: Sequence[str], now_ms: int) -> list[bool]:
        """Return which of the keys are not in the table, whose last position is `position`; of several copies the
        first."""
        since_ms = now_ms - WINDOW_MS
        self._forget(since_ms)
        if position < self._through:
            self._through, self._received = 0, {}
        if position > self._through:
            rows = _keys_after(table, self._through, utc(since_ms))
            received = pc.divide(rows["received_at"].cast(pa.int64()), TOGETHER_MS * 1000)
            for part in pc.unique(received).to_pylist():
                self._add(rows.filter(pc.equal(received, part))["event_key"].to_pylist(), part)
            self._through = position
        met: set[str] = set()
        found = []
        for key, is_known in zip(keys, self._known(keys), strict=True):
            found.append(not is_known and key not in met)
            met.add(key)
        return found

    def note(self, keys: Sequence[str], position: int, now_ms: int) -> None:
        """Note that the events of these were landed, the last of them at `position`."""
        self._add(keys, now_ms // TOGETHER_MS)
        self._through = position

    @property
    def size(self) -> int:
        """Bytes that the keys take."""
        return sum(run.nbytes for runs in self._received.values() for run in runs)

    def _forget(self, before_ms: int) -> None:
        for part in [each for each in self._received if (each + 1) * TOGETHER_MS <= before_ms]:
            del self._received[part]

    def _known(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        wanted = _digests(keys)
        known = np.zeros(len(keys), bool)
        for run in itertools.chain.from_iterable(self._received.values()):
            places = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
            known |= run[places] == wanted
        return known

    def _add(self, keys: Sequence[str], part: int) -> None:
        """Add keys as sorted runs, of which each is more than twice as long as the next: adding costs little, and so
        does looking."""
        if not keys:
            return
        runs = self._received.setdefault(part, [])
        runs.append(np.sort(_digests(keys)))
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            last = runs.pop()
            runs[-1] = np.sort(np.concatenate([runs[-1], last]))


def _keys_after(table: Table, position: int, since: datetime) -> pa.Table:
    """Return the keys of events beyond a position, received since a moment. Where a file is damaged, those of the
    others, some earlier ones among them: its events land a second time should they come again, and new ones land."""
    columns = ["event_key", "received_at"]
    try:
        return table.scan(columns, f"position > {position} and received_at >= {literal_time(since)}")
    except TableDamaged as damaged:
        log.warning("Events that come again are not known by what cannot be read: %s", damaged)
    is_before = (pl.col("max.position") <= position) | (pl.col("max.received_at") < since)
    parts = [pa.schema([table.schema.field(name) for name in columns]).empty_table()]
    for file in table.files(~is_before.fill_null(value=False)):
        with suppress(TableDamaged):
            parts.append(table.read_files([file.path], columns))
    return pa.concat_tables(parts)


def _digests(keys: Iterable[str]) -> Digests:
    return np.array([bytes.fromhex(each) for each in keys], dtype="S16")
