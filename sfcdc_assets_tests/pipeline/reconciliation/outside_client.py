"""What any Delta client may do to the tables at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable

from sfcdc_assets.key_ranges.data_file import write_table
from sfcdc_assets.lake.delta.data_files import NewFile, PackedFiles
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

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
    known = {"_position", "_valid_from", "position", "opened_position", "number", "first_seen_at", "seen_at"}
    table.optimize.z_order(sorted(names & known)[:1])


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


def deal_out(warehouse: Warehouse, name: str, files: int) -> None:
    """Put a table's rows into so many files, dealt out like cards: each file has Ids from all over the table, as after
    an order by another column."""
    table = Table.open(warehouse, name)
    assert table is not None
    rows, store = table.scan().sort_by("Id"), warehouse.filesystem(name)
    dealt = [list(range(first, len(rows), files)) for first in range(min(files, len(rows)))]
    written = [write_table(rows.take(each), store) for each in dealt]
    new = [NewFile(each.path, each.size, each.statistics) for each in written]
    table.pack_files([PackedFiles(new, table.files())])
