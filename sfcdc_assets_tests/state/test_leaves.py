"""Id-range leaves: every Id has one leaf, files hold their range, big leaves split."""

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

from sfcdc_assets.state import leaves as leaves_module
from sfcdc_assets.state.leaves import IdRange, leaf_numbers, leaves_of_snapshot, leaves_of_table, write_leaf

IDS = st.text("ABCabc012", min_size=1, max_size=4)


def test_an_empty_table_is_one_leaf_without_files():
    (leaf,) = leaves_of_table([])
    assert (leaf.lower, leaf.upper, leaf.files) == ("", None, ())


@given(st.lists(IDS, min_size=1, max_size=12, unique=True), st.lists(IDS, min_size=1))
def test_every_id_belongs_to_exactly_one_leaf_and_to_the_file_that_holds_it(ids, asked):
    ordered = sorted(ids)
    files = [IdRange(f"{number}", first, first) for number, first in enumerate(ordered)]
    leaves = leaves_of_table(files)
    for record_id, number in zip(asked, leaf_numbers(leaves, asked), strict=True):
        leaf = leaves[number]
        assert leaf.lower <= record_id
        assert leaf.upper is None or record_id < leaf.upper
    for record_id, number in zip(ordered, leaf_numbers(leaves, ordered), strict=True):
        assert leaves[number].files == (str(ordered.index(record_id)),)


@given(st.lists(IDS, max_size=40), st.integers(0, 2_000_000), st.integers(0, 500_000_000))
def test_a_snapshots_leaves_cover_all_ids_in_order(sample, rows, size):
    pages = [IdRange("p", min(sample), max(sample))] if sample else []
    leaves = leaves_of_snapshot(sample, rows, size, pages, [])
    assert leaves[0].lower == ""
    assert leaves[-1].upper is None
    assert all(one.upper == other.lower for one, other in itertools.pairwise(leaves))
    for record_id, number in zip(sample, leaf_numbers(leaves, sample), strict=True):
        assert leaves[number].pages == ("p",), record_id


def test_a_leaf_over_the_limit_is_split_and_says_what_each_file_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(leaves_module, "MAX_ROWS", 10)
    monkeypatch.setattr(leaves_module, "TARGET_ROWS", 5)
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    rows = pl.DataFrame({"Id": [f"{n:03}" for n in range(12)], "_position": list(range(12))})
    written = write_leaf(rows, schema, fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()))
    assert [file.rows for file in written] == [4, 4, 4]
    for file in written:
        table = pq.read_table(tmp_path / file.path)
        told = json.loads(file.statistics)
        assert told["numRecords"] == table.num_rows
        assert (told["minValues"]["Id"], told["maxValues"]["Id"]) == (table["Id"][0].as_py(), table["Id"][-1].as_py())
        assert file.size == (tmp_path / file.path).stat().st_size


def test_wide_rows_are_split_by_their_bytes_and_nothing_is_left_of_the_file_that_was_too_large(tmp_path, monkeypatch):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64()), ("Text", pa.string())])
    rows = pl.DataFrame({"Id": [f"{n:03}" for n in range(12)], "_position": list(range(12))})
    rows = rows.with_columns(
        Text=pl.Series(["".join(sha256(f"{n} {part}".encode()).hexdigest() for part in range(200)) for n in range(12)])
    )
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    (whole,) = write_leaf(rows, schema, filesystem)
    monkeypatch.setattr(leaves_module, "MAX_BYTES", whole.size - 1)
    monkeypatch.setattr(leaves_module, "TARGET_BYTES", whole.size // 3)
    written = write_leaf(rows, schema, filesystem)
    assert sum(file.rows for file in written) == 12
    assert len(written) in (3, 4)
    assert {path.name for path in tmp_path.iterdir()} == {whole.path, *(file.path for file in written)}


def test_no_rows_make_no_file(tmp_path):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    rows = pl.DataFrame(schema={"Id": pl.String, "_position": pl.Int64})
    assert write_leaf(rows, schema, fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())) == []


@given(st.lists(IDS, max_size=12, unique=True), st.lists(IDS, max_size=30, unique=True), st.integers(1, 900))
def test_new_records_get_leaves_of_their_own_behind_the_files(ids, created, columns):
    files = [IdRange(record_id, record_id, record_id) for record_id in ids]
    leaves = leaves_of_table(files, created=created, columns=columns)
    assert (leaves[0].lower, leaves[-1].upper) == ("", None)
    assert all(one.upper == other.lower for one, other in itertools.pairwise(leaves))
    assert [leaf.files for leaf in leaves if leaf.files] == [(record_id,) for record_id in sorted(ids)]
    new = sorted(record_id for record_id in created if record_id > max(ids, default=""))
    most = max(1, leaves_module.CREATED_CELLS // columns // leaves_module.SAMPLED)
    shares = Counter(leaf_numbers(leaves, new)).values()
    assert max(shares, default=0) <= most + 1
    assert len(leaves) <= max(1, len(ids)) + len(new) // most
