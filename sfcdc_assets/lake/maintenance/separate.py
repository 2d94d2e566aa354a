"""Separate files of one table whose Ids overlap, as another client's OPTIMIZE or Z-ORDER leaves them.

Each step writes a bounded piece again, in a commit of its own, beside batches that go on. Files that overlap and that a
task may hold together are merged. Of more, each file is cut where the Ids of all are cut into as many parts (a
distribution sort): then every part is a smaller problem of its own. So a row is written again twice, or once more for
each further power of `FAN_OUT`, and in the end no two files share an Id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import polars as pl
import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.key_ranges.data_file import write_files
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.key_ranges.key_ranges import (
    TARGET_BYTES,
    TARGET_ROWS,
    IdRange,
    cuts_of,
    is_too_much,
    key_ranges_wanted,
    overlapping,
)
from sfcdc_assets.key_ranges.range_rows import conformed, parts_of
from sfcdc_assets.key_ranges.sample import look_into_file
from sfcdc_assets.lake.delta.data_files import NewFile, PackedFiles
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.pack import Packed, RowsMissing, commit_packed, report_damage
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.current_state import id_ranges
from sfcdc_assets.lake.tables.rows_by_id import write_range
from sfcdc_assets.lake.warehouse import Warehouse

FAN_OUT = 32
"""Into so many parts a file is cut at most: of `TARGET_BYTES` that are read at a time each is half a megabyte."""
MOST_STEPS = 2_000
"""Of one maintenance; the next one goes on."""


@dataclass(frozen=True)
class Step:
    """Files that are written again as files none of which crosses a cut; without cuts they are merged."""

    files: tuple[IdRange, ...]
    cuts: tuple[str, ...] = ()


SampleOf = Callable[[IdRange], Sequence[str]]


def next_step(files: Sequence[IdRange], cuts: set[str], sample_of: SampleOf) -> Step | None:
    """Return what to do first about files that overlap; None where none do. `cuts` are those chosen so far, and more
    where they part nothing any more."""
    for group in overlapping(files):
        if len(group) == 1:
            continue
        if not is_too_much(group):
            return Step(group)
        if not any(_crossed(file, cuts) for file in group):
            ids = sorted(record_id for file in group for record_id in sample_of(file))
            count = key_ranges_wanted(sum(file.rows for file in group), sum(file.size for file in group))
            cuts |= {each for each in cuts_of(ids, max(2, min(FAN_OUT, count))) if each > ids[0]}
        return next((Step((file,), found) for file in group if (found := _crossed(file, cuts))), None)
    return None


def _crossed(file: IdRange, cuts: set[str]) -> tuple[str, ...]:
    return tuple(sorted(cut for cut in cuts if file.first < cut <= file.last))


def separate(warehouse: Warehouse, name: str) -> Packed:
    """Separate the files of a table with one row a record (`current_state`, `formula_values`); how many were written
    again as how many. Others may be at work: a file that they replaced meanwhile is left to them. Raises
    `TableDamaged`, `RowsMissing`, `TableNotWritten`, and `ConcurrentCommit` when others were first ten times."""
    filesystem, cuts, done = warehouse.filesystem(name), set[str](), Packed()

    def sample_of(file: IdRange) -> Sequence[str]:
        return look_into_file(file.path, filesystem, None).sample

    for _ in range(MOST_STEPS):
        table = Table.open(warehouse, name)
        files = {file.path: file for file in table.files()} if table is not None else {}
        with report_damage(warehouse.root, name, filesystem, list(files.values())):
            step = next_step(id_ranges(list(files.values())), cuts, sample_of)
            if table is None or step is None:
                return done
            added = _all_or_none(filesystem, _written_again(filesystem, step, table))
        removed = [files[file.path] for file in step.files]
        expected = sum(file.rows for file in removed)
        found = sum(json.loads(each.statistics)["numRecords"] for each in added)
        if found != expected:
            raise RowsMissing(removed[0].path, expected, found)
        done += commit_packed(warehouse, name, [PackedFiles(added, removed)], filesystem)
    return done


def _written_again(filesystem: fs.FileSystem, step: Step, table: Table) -> Iterator[NewFile]:
    """Yield the files of a step; no more rows are held than one task may hold."""
    shape = empty_rows(table.schema).schema
    held: list[pl.DataFrame] = []
    most = _rows_at_once(step.files[0]) if step.cuts else 1 + sum(file.rows for file in step.files)
    for file in step.files:
        with filesystem.open_input_file(file.path) as source:
            for rows in parts_of(source, shape):
                held.append(conformed(rows, shape))
                if sum(each.height for each in held) >= most:
                    yield from _parted(held, step.cuts, filesystem, table)
                    held = []
    if held:
        yield from _parted(held, step.cuts, filesystem, table)


def _all_or_none(filesystem: fs.FileSystem, files: Iterator[NewFile]) -> list[NewFile]:
    """Return the files; should one of them not be written, none stays."""
    written: list[NewFile] = []
    try:
        written.extend(files)
    except BaseException:
        for each in written:
            with suppress(OSError):
                filesystem.delete_file(each.path)
        raise
    return written


def _rows_at_once(file: IdRange) -> int:
    return max(1, min(TARGET_ROWS, file.rows * TARGET_BYTES // max(1, file.size)))


def _parted(
    held: Sequence[pl.DataFrame], cuts: Sequence[str], filesystem: fs.FileSystem, table: Table
) -> Iterator[NewFile]:
    plain = pa.schema([field.remove_metadata() for field in table.schema])
    rows = pl.concat(held).sort("Id")
    ends = [0, *(int(rows["Id"].search_sorted(cut, side="left")) for cut in cuts), rows.height]
    for begin, end in pairwise(ends):
        part = rows.slice(begin, end - begin)
        if table.name.startswith(f"{current_state.LAYER}/"):
            for each in write_files(part.to_arrow().cast(plain), filesystem):
                yield NewFile(each.path, each.size, each.statistics)
        elif part.height:
            yield write_range(table, filesystem, part)
