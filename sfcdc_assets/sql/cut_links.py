"""The tables of the newest cuts as folders of links, and a small file that says which of them are shown from when.

A reader that knows nothing of Delta follows the newest cut by them, without a process of ours: DuckDB finds the files
of a table by a pattern and those of a cut by the file, each time it is asked. A folder is named after the files it
links, so a table that did not change is not linked again. Nothing is copied: what is erased from the warehouse is gone
from here too.

`now()` is the same in all of a transaction, and a cut is shown from a moment that is still to come when it is noted
here. So all tables in a transaction are those of one cut, though each looks for itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfcdc_assets.lake.delta.readable_table import ReadableTable
from sfcdc_assets.lake.tables.consistent_cuts import CONSISTENT_CUTS, Cut
from sfcdc_assets.lake.tables.cut_retention import GRACE
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import EPOCH

FILES = "_sfcdc_files"
"""Name of the column, and of the folders, that tell the files of one version of a table from those of another."""
NOTED_BEFORE = timedelta(seconds=2)
"""How long before it is shown a cut is noted: longer than writing a small file takes."""
SHOWN = pa.schema(
    [
        ("number", pa.int64()),
        ("shown_from", pa.timestamp("us", "UTC")),
        ("table", pa.string()),
        (FILES, pa.string()),
        ("batch", pa.int64()),
        ("rolled_back_in", pa.int64()),
        ("rolled_back_to", pa.int64()),
    ]
)
"""A row for each table of each cut that is kept; `batch` and the next two as in `Checkpoint.part`, null where every row
counts."""
_OF_A_CUT = [CONSISTENT_CUTS.field(each) for each in ("channel", "position", "commit_timestamp", "applied_at")]
CUTS = pa.schema([("number", pa.int64()), *_OF_A_CUT])
LAGGING = pa.schema([("number", pa.int64()), *CONSISTENT_CUTS.field("lagging").type.value_type])
_NEVER = EPOCH


@dataclass(frozen=True)
class CutLinks:
    """A folder of ours alone."""

    folder: Path

    def pattern(self, table: str) -> tuple[str, str]:
        """Return the folder of a table's links, and the pattern of the files below it."""
        return str(self.folder / table), f"{FILES}=*/*.parquet"

    @property
    def shown(self) -> Path:
        """The file with rows of `SHOWN`."""
        return self.folder / "shown.parquet"

    @property
    def cuts(self) -> Path:
        """The file with rows of `CUTS`."""
        return self.folder / "cuts.parquet"

    @property
    def lagging(self) -> Path:
        """The file with rows of `LAGGING`."""
        return self.folder / "lagging.parquet"

    def show(self, warehouse: Warehouse, tables: Iterable[ReadableTable], cuts: Iterable[Cut], now: datetime) -> bool:
        """Show these tables `NOTED_BEFORE` later, at once if none are shown yet; returns whether anything is new.

        The tables that are shown until then stay for `GRACE` more, which is as long as their files are sure to be
        there: a statement that runs longer than that may fail.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self._show(warehouse, tables, tuple(cuts), now)

    def _show(
        self, warehouse: Warehouse, tables: Iterable[ReadableTable], cuts: tuple[Cut, ...], now: datetime
    ) -> bool:
        rows = [_row(each, self._linked(warehouse, each)) for each in tables]
        before = pq.read_table(self.shown) if self.shown.exists() else SHOWN.empty_table()
        newest = pc.max(before["number"]).as_py() if before.num_rows else None
        if newest is not None and self._is_shown(before, newest, rows, cuts):
            return False
        number = 0 if newest is None else newest + 1
        of_number = {"number": number, "shown_from": _NEVER if newest is None else now + NOTED_BEFORE}
        kept = _kept(before, now)
        numbers = pc.unique(kept["number"])
        of_cuts = [{"number": number} | {field.name: getattr(cut, field.name) for field in _OF_A_CUT} for cut in cuts]
        lagging = [{"number": number, **vars(each)} for cut in cuts for each in cut.lagging]
        self._add(self.cuts, of_cuts, CUTS, numbers)
        self._add(self.lagging, lagging, LAGGING, numbers)
        _write(self.shown, pa.concat_tables([kept, pa.Table.from_pylist([of_number | row for row in rows], SHOWN)]))
        self._remove_others(pq.read_table(self.shown))
        return True

    def _is_shown(self, before: pa.Table, newest: int, rows: list[dict[str, object]], cuts: tuple[Cut, ...]) -> bool:
        of_newest = before.filter(pc.equal(before["number"], newest)).drop_columns(["number", "shown_from"])
        shown = pq.read_table(self.cuts)
        of_cuts = shown.filter(pc.equal(shown["number"], newest)).select([each.name for each in _OF_A_CUT])
        wanted = [{field.name: getattr(cut, field.name) for field in _OF_A_CUT} for cut in cuts]
        return bool(of_newest.to_pylist() == rows and of_cuts.to_pylist() == wanted)

    def _add(self, file: Path, rows: list[dict[str, object]], schema: pa.Schema, kept_numbers: pa.Array) -> None:
        before = pq.read_table(file) if file.exists() else schema.empty_table()
        kept = before.filter(pc.is_in(before["number"], kept_numbers))
        _write(file, pa.concat_tables([kept, pa.Table.from_pylist(rows, schema)]))

    def _linked(self, warehouse: Warehouse, table: ReadableTable) -> str:
        """Return the name of the folder with links to exactly the files of a table, made if it is not there."""
        paths = [f"{warehouse.uri(table.name)}/{path}" for of in table.files for path in of.paths]
        digest = hashlib.sha256("\n".join([*sorted(paths), str(table.schema.names)]).encode()).hexdigest()[:24]
        folder = self.folder / table.name / f"{FILES}={digest}"
        if not folder.exists():
            made = folder.with_name(f".{uuid4().hex}")
            made.mkdir(parents=True)
            # A pattern that finds no file is an error, and so is one that finds no column.
            pq.write_table(table.schema.empty_table(), made / "columns.parquet")
            for number, path in enumerate(paths):
                os.symlink(path, made / f"{number:06}.parquet")
            made.rename(folder)
        return digest

    def _remove_others(self, shown: pa.Table) -> None:
        """Remove folders that no cut shows any more, and those that were not finished."""
        kept = {(row["table"], row[FILES]) for row in shown.select(["table", FILES]).to_pylist()}
        for folder in (*self.folder.glob("*/*"), *self.folder.glob("*/*/*")):
            table = str(folder.parent.relative_to(self.folder))
            is_ours = folder.name.startswith((f"{FILES}=", ".")) and folder.is_dir()
            if is_ours and (table, folder.name.removeprefix(f"{FILES}=")) not in kept:
                shutil.rmtree(folder)


def _row(table: ReadableTable, digest: str) -> dict[str, object]:
    of = table.up_to
    rolled_back = (of.rolled_back_in, of.rolled_back_to) if of is not None and of.rolled_back_in else (None, None)
    return {
        "table": table.name,
        FILES: digest,
        "batch": of.batch if of is not None else None,
        "rolled_back_in": rolled_back[0],
        "rolled_back_to": rolled_back[1],
    }


def _kept(shown: pa.Table, now: datetime) -> pa.Table:
    """Return the rows of the cuts that a transaction which began `GRACE` ago, or later, is shown."""
    starts = sorted({(row["number"], row["shown_from"]) for row in shown.select(["number", "shown_from"]).to_pylist()})
    nexts = [*(start for _, start in starts[1:]), now + NOTED_BEFORE]
    numbers = [number for (number, _), ends in zip(starts, nexts, strict=False) if ends > now - GRACE]
    return shown.filter(pc.is_in(shown["number"], pa.array(numbers, pa.int64())))


def _write(file: Path, rows: pa.Table) -> None:
    beside = file.with_name(f".{uuid4().hex}")
    pq.write_table(rows, beside)
    beside.replace(file)
