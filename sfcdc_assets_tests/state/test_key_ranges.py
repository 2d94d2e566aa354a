"""key-range files: every Id has one key range, files hold their range, big leaves split."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from hashlib import sha256

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from pyarrow import fs

from sfcdc_assets.state import key_ranges as key_ranges_module
from sfcdc_assets.state.key_ranges import (
    IdRange,
    key_ranges_of_snapshot,
    key_ranges_of_table,
    range_numbers,
    write_files,
)

IDS = st.text("ABCabc012", min_size=1, max_size=4)


def test_an_empty_table_is_one_key_range_without_files():
    (key_range,) = key_ranges_of_table([])
    assert (key_range.lower, key_range.upper, key_range.files) == ("", None, ())


@given(st.lists(IDS, min_size=1, max_size=12, unique=True), st.lists(IDS, min_size=1))
def test_every_id_belongs_to_exactly_one_key_range_and_to_the_file_that_holds_it(ids, asked):
    ordered = sorted(ids)
    files = [IdRange(f"{number}", first, first) for number, first in enumerate(ordered)]
    key_ranges = key_ranges_of_table(files)
    for record_id, number in zip(asked, range_numbers(key_ranges, asked), strict=True):
        key_range = key_ranges[number]
        assert key_range.lower <= record_id
        assert key_range.upper is None or record_id < key_range.upper
    for record_id, number in zip(ordered, range_numbers(key_ranges, ordered), strict=True):
        assert key_ranges[number].files == (str(ordered.index(record_id)),)


@given(st.lists(IDS, max_size=40), st.integers(0, 2_000_000), st.integers(0, 500_000_000))
def test_a_snapshots_key_ranges_cover_all_ids_in_order(sample, rows, size):
    pages = [IdRange("p", min(sample), max(sample))] if sample else []
    key_ranges = key_ranges_of_snapshot(sample, rows, size, pages, [])
    assert key_ranges[0].lower == ""
    assert key_ranges[-1].upper is None
    assert all(one.upper == other.lower for one, other in itertools.pairwise(key_ranges))
    for record_id, number in zip(sample, range_numbers(key_ranges, sample), strict=True):
        assert key_ranges[number].pages == ("p",), record_id


def test_a_key_range_over_the_limit_is_split_and_says_what_each_file_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(key_ranges_module, "MAX_ROWS", 10)
    monkeypatch.setattr(key_ranges_module, "TARGET_ROWS", 5)
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    rows = pl.DataFrame({"Id": [f"{n:03}" for n in range(12)], "_position": list(range(12))})
    written = write_files(rows, schema, fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert [file.rows for file in written] == [4, 4, 4]
    for file in written:
        table = pq.read_table(tmp_path / file.path)
        reported = json.loads(file.statistics)
        assert reported["numRecords"] == table.num_rows
        assert (reported["minValues"]["Id"], reported["maxValues"]["Id"]) == (
            table["Id"][0].as_py(),
            table["Id"][-1].as_py(),
        )
        assert file.size == (tmp_path / file.path).stat().st_size


def test_wide_rows_are_split_by_their_bytes_and_nothing_is_left_of_the_file_that_was_too_large(tmp_path, monkeypatch):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64()), ("Text", pa.string())])
    rows = pl.DataFrame({"Id": [f"{n:03}" for n in range(12)], "_position": list(range(12))})
    rows = rows.with_columns(
        Text=pl.Series(["".join(sha256(f"{n} {part}".encode()).hexdigest() for part in range(200)) for n in range(12)])
    )
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    (whole,) = write_files(rows, schema, filesystem)
    monkeypatch.setattr(key_ranges_module, "MAX_BYTES", whole.size - 1)
    monkeypatch.setattr(key_ranges_module, "TARGET_BYTES", whole.size // 3)
    written = write_files(rows, schema, filesystem)
    assert sum(file.rows for file in written) == 12
    assert len(written) in (3, 4)
    assert {path.name for path in tmp_path.iterdir()} == {whole.path, *(file.path for file in written)}


def test_no_rows_make_no_file(tmp_path):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    rows = pl.DataFrame(schema={"Id": pl.String, "_position": pl.Int64})
    assert write_files(rows, schema, fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())) == []


@given(st.lists(IDS, max_size=12, unique=True), st.lists(IDS, max_size=30, unique=True), st.integers(1, 900))
def test_new_records_get_key_ranges_of_their_own_behind_the_files(ids, created, columns):
    files = [IdRange(record_id, record_id, record_id) for record_id in ids]
    key_ranges = key_ranges_of_table(files, created=created, columns=columns)
    assert (key_ranges[0].lower, key_ranges[-1].upper) == ("", None)
    assert all(one.upper == other.lower for one, other in itertools.pairwise(key_ranges))
    assert [key_range.files for key_range in key_ranges if key_range.files] == [
        (record_id,) for record_id in sorted(ids)
    ]
    new = sorted(record_id for record_id in created if record_id > max(ids, default=""))
    most = max(1, key_ranges_module.CREATED_CELLS // columns // key_ranges_module.SAMPLED)
    shares = Counter(range_numbers(key_ranges, new)).values()
    assert max(shares, default=0) <= most + 1
    assert len(key_ranges) <= max(1, len(ids)) + len(new) // most
