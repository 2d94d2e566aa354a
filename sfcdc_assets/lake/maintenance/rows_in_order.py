"""The rows of some files in one order, of which memory holds those of a file.

What is landed comes in the order of positions, so that each file begins where the one before it ended. Of other tables
small files lie among each other, and all of their rows are sorted at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
from pyarrow import fs

from sfcdc_assets.key_ranges.data_file import rows_of_files

_Key = tuple[tuple[bool, object], ...]


class RowsInOrder:
    """Rows of Parquet files in the columns of a schema, null where a file lacks one, sorted by some of them. A null
    comes after all else."""

    def __init__(
        self, filesystem: fs.FileSystem, paths: Sequence[str], schema: pa.Schema, order: Sequence[str]
    ) -> None:
        """Read the columns of `order`; those that the schema lacks do not count."""
        self._filesystem = filesystem
        self._schema = schema
        self._order = [(name, "ascending") for name in order if name in schema.names]
        self.rows = 0
        """How many there are."""
        ends: list[tuple[_Key, _Key, str]] = []
        for path in paths:
            keys = self._sorted([path], [name for name, _ in self._order])
            self.rows += keys.num_rows
            if keys.num_rows:
                first, last = (_key(keys.slice(at, 1)) for at in (0, keys.num_rows - 1))
                ends.append((first, last, path))
        ends.sort()
        apart = all(last <= first for (_, last, _), (first, _, _) in pairwise(ends))
        self._pieces = [[path] for _, _, path in ends] if apart else [list(paths)]

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows in their order."""
        for paths in self._pieces:
            yield self._sorted(paths, self._schema.names)

    def _sorted(self, paths: Sequence[str], columns: Sequence[str]) -> pa.Table:
        rows = rows_of_files(paths, self._schema, self._filesystem).to_table(columns=list(columns))
        return rows.sort_by(self._order) if self._order else rows


def _key(row: pa.Table) -> _Key:
    (values,) = row.to_pylist()
    return tuple((value is None, 0 if value is None else value) for value in values.values())
