"""What any Delta client may do to the tables at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable

DAY = 86_400


def tables(root: Path) -> Iterator[DeltaTable]:
    """All below a folder."""
    for log in sorted(root.rglob("_delta_log")):
        yield DeltaTable(str(log.parent))


def compact(table: DeltaTable) -> None:
    """OPTIMIZE."""
    table.optimize.compact()


def z_order(table: DeltaTable) -> None:
    """OPTIMIZE ZORDER BY a position: rows of all Ids meet in one file."""
    names = {field.name for field in table.schema().fields}
    table.optimize.z_order(sorted(names & {"_position", "position", "opened_position", "number", "first_seen_at"})[:1])


def vacuum(table: DeltaTable) -> None:
    """Keeps nothing of older versions."""
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)


def compact_and_vacuum(table: DeltaTable) -> None:
    """One after the other."""
    compact(table)
    vacuum(table)


def clean_up_logs(root: Path, now_s: float) -> None:
    """A checkpoint of each table, and all commits before it are removed, as 30 days later."""
    for log in sorted(root.rglob("_delta_log")):
        moment = now_s - 31 * DAY
        for path in log.iterdir():
            os.utime(path, (moment, moment))
        table = DeltaTable(str(log.parent))
        table.create_checkpoint()
        table.cleanup_metadata()
