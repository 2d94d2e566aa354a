"""Rows of files in one order, a file's at a time where the files follow one another."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from sfcdc_assets.lake.maintenance.rows_in_order import RowsInOrder
from sfcdc_assets_tests.examples import examples

SCHEMA = pa.schema([("channel", pa.string()), ("position", pa.int64()), ("note", pa.string())])
Row = tuple[str | None, int | None]
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9)), max_size=5)


def in_order(folder: Path, files: list[list[Row]], order: tuple[str, ...]) -> list[list[Row]]:
    """The rows, part by part. A file lacks `note`, which no older one has."""
    for number, rows in enumerate(files):
        columns = [[row[at] for row in rows] for at in (0, 1)]
        arrays = [pa.array(values, SCHEMA.field(at).type) for at, values in enumerate(columns)]
        pq.write_table(pa.table(arrays, names=["channel", "position"]), folder / f"{number}.parquet")
    found = RowsInOrder(
        fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()),
        [f"{number}.parquet" for number in range(len(files))],
        SCHEMA,
        order,
    )
    assert found.rows == sum(map(len, files))
    parts = list(found.parts())
    assert all(part.schema == SCHEMA for part in parts)
    return [[(row["channel"], row["position"]) for row in part.to_pylist()] for part in parts]


def key(row: Row) -> tuple[tuple[bool, object], ...]:
    return tuple((value is None, 0 if value is None else value) for value in row)


@settings(max_examples=examples(0.5))
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_every_row_comes_once_and_in_order_whatever_lies_in_which_file(files: list[list[Row]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        found = [row for part in in_order(Path(name), files, ("channel", "position")) for row in part]
    assert found == sorted((row for rows in files for row in rows), key=key)


def test_files_that_follow_one_another_are_held_one_at_a_time(tmp_path: Path) -> None:
    files: list[list[Row]] = [[("a", 5), ("a", 4)], [("a", 1), ("a", 2)], [("a", 9), ("b", 0)], [("a", 5), ("a", 6)]]
    assert in_order(tmp_path, files, ("channel", "position", "no such column")) == [
        [("a", 1), ("a", 2)],
        [("a", 4), ("a", 5)],
        [("a", 5), ("a", 6)],
        [("a", 9), ("b", 0)],
    ]


def test_files_that_lie_among_each_other_are_sorted_together(tmp_path: Path) -> None:
    assert in_order(tmp_path, [[("a", 1), ("a", 3)], [("a", 2)]], ("position",)) == [[("a", 1), ("a", 2), ("a", 3)]]
