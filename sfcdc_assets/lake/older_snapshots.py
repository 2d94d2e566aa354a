"""Snapshot tables of format 1: their numbers' watermarks were transaction versions, their progress metadata of commits.

What they knew of complete snapshots becomes entries. A snapshot that was being read is begun again.
"""

from __future__ import annotations

from sfcdc_assets.lake.snapshot_checkpoint import SnapshotCheckpoint, SnapshotEntry
from sfcdc_assets.lake.table import Table
from sfcdc_assets.snapshot.progress import SnapshotProgress


def entries_of_format_1(table: Table, checkpoint: SnapshotCheckpoint, entity: str) -> list[SnapshotEntry]:
    """An entry for each snapshot that counts, and for the one that was not believed."""
    newest = checkpoint.complete
    found = []
    for number in range(checkpoint.first or 1, newest + 1):
        watermark = checkpoint.watermark if number == newest else table.transaction_version(f"pin#{number}")
        if watermark is not None:
            found.append(_entry(table, entity, number, watermark, counts=True))
    refused = table.transaction_version(f"refused pin#{checkpoint.refused}")
    if checkpoint.refused > newest and refused is not None:
        found.append(_entry(table, entity, checkpoint.refused, refused, counts=False))
    return found


def _entry(table: Table, entity: str, number: int, watermark: int, *, counts: bool) -> SnapshotEntry:
    progress = SnapshotProgress(number, entity, "", watermark, "", None, 0, 0, True, 0, ())
    return SnapshotEntry(progress, counts, table.transaction_version(f"after refetch#{number}") or 0)
