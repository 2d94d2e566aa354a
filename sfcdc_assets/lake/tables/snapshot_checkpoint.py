"""Snapshot checkpoint: what a snapshot table remembers beside its rows, kept where log cleanup cannot reach it.

What every tick asks for is numbers, kept as Delta's transaction versions. What a snapshot says of itself (its
watermark, its job, how far it was read) is a row of its own, an entry, committed together with the page that it
follows: readers of rows never meet it, because it lies in a partition of its own. The last entry of a number counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.transaction_versions import stored_as, stored_names
from sfcdc_assets.snapshot.progress import SnapshotProgress

ENTRIES = -1
"""The partition of entries, where that of a snapshot's rows is its number."""

ENTRY = "_entry"
"""The column of the table that holds one; null in all other rows."""


@dataclass(frozen=True)
class SnapshotCheckpoint:
    """Numbers; 0 where there is nothing yet. A snapshot counts when it was read whole and is believed."""

    snapshot: int = 0
    """The last snapshot that was begun."""
    complete: int = 0
    """The newest that counts."""
    watermark: int = stored_as("pin")
    """Its watermark."""
    after_read_back: int = stored_as("after_refetch")
    """The last read-back before it."""
    asked_at: int = 0
    """When it was asked for by the org's own clock, epoch ms."""
    first: int = 0
    """The first that counts of those with a watermark on the channel of today."""
    refused: int = 0
    """The last that was not believed."""
    read_back: int = stored_as("refetch")
    """The last read-back."""
    read_back_asked_at: int = 0
    """When it was asked for by the org's own clock, epoch ms."""
    whole: int = 0
    """The last that was read to its end, counted or not; `rows` are its rows."""
    rows: int = stored_as("rows of whole")
    read_at: int = 0
    """When rows were last read into the table, epoch ms by the clock of the process that did."""

    @classmethod
    def of(cls, table: Table) -> SnapshotCheckpoint:
        """Return what a handle has."""
        found = {name: table.transaction_version(stored) for name, stored in stored_names(cls).items()}
        return cls(**{name: number or 0 for name, number in found.items()})

    def versions(self) -> dict[str, int]:
        """Return the checkpoint as transaction versions."""
        return {stored: getattr(self, name) for name, stored in stored_names(self).items()}

    def news_since(self, before: SnapshotCheckpoint) -> dict[str, int]:
        """Return those that differ, and the snapshot's number, with which of two that read one at once one is
        refused."""
        then = before.versions()
        news = {name: number for name, number in self.versions().items() if number != then[name]}
        return news | {"snapshot": self.snapshot}


def has_watermark_on(channel: str) -> str:
    """Return the transaction version that has the number of the newest snapshot whose watermark lies on the channel."""
    return f"watermark on {channel}"


@dataclass(frozen=True)
class SnapshotEntry:
    """What is known of one snapshot after one of its pages."""

    progress: SnapshotProgress
    counts: bool = False
    after_read_back: int = 0
    """The last read-back before it was complete: reads with one watermark stand in the order in which they were
    made."""

    @property
    def number(self) -> int:
        """Of the snapshot."""
        return self.progress.snapshot_number

    @property
    def position(self) -> int:
        """Its watermark."""
        return self.progress.position

    def row(self, schema: pa.Schema) -> pa.Table:
        """Return the entry as a row of the table."""
        reported = {"progress": self.progress.to_json(), "counts": self.counts, "after_refetch": self.after_read_back}
        return pa.Table.from_pylist([{"_snapshot": ENTRIES, ENTRY: json.dumps(reported)}], schema=schema)

    @staticmethod
    def from_json(text: str) -> SnapshotEntry:
        """Read what `to_json` wrote."""
        reported = json.loads(text)
        return SnapshotEntry(
            SnapshotProgress.from_json(reported["progress"]), reported["counts"], reported["after_refetch"]
        )


def entries_of(table: Table) -> dict[int, SnapshotEntry]:
    """Return the last entry of each snapshot, by its number."""
    if ENTRY not in table.schema.names:
        return {}
    rows = table.scan([ENTRY], f"_snapshot = {ENTRIES}")[ENTRY].to_pylist()
    return last_of_each(SnapshotEntry.from_json(row) for row in rows)


def last_of_each(entries: Iterable[SnapshotEntry]) -> dict[int, SnapshotEntry]:
    """Return the last entry of each snapshot. A snapshot's entries follow one another by the pages that were read; last
    comes that it counts."""
    ordered = sorted(entries, key=lambda entry: (entry.number, entry.progress.pages_done, entry.counts))
    return {entry.number: entry for entry in ordered}
