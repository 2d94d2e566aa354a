"""Data files: large ones are split, each says what it holds, and it is encoded as its values ask for."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from sfcdc_assets.key_ranges import data_file
from sfcdc_assets.key_ranges.data_file import rows_of_files, rows_where, write_files, write_table


def local(folder) -> fs.FileSystem:
    return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())


def test_a_key_range_over_the_limit_is_split_and_says_what_each_file_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(data_file, "MAX_ROWS", 10)
    monkeypatch.setattr(data_file, "TARGET_ROWS", 5)
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    rows = pa.table({"Id": [f"{n:03}" for n in range(12)], "_position": list(range(12))}, schema=schema)
    written = write_files(rows, local(tmp_path))
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
    texts = ["".join(sha256(f"{n} {part}".encode()).hexdigest() for part in range(200)) for n in range(12)]
    rows = pa.table([[f"{n:03}" for n in range(12)], list(range(12)), texts], schema=schema)
    filesystem = local(tmp_path)
    (whole,) = write_files(rows, filesystem)
    monkeypatch.setattr(data_file, "MAX_BYTES", whole.size - 1)
    monkeypatch.setattr(data_file, "TARGET_BYTES", whole.size // 3)
    written = write_files(rows, filesystem)
    assert sum(file.rows for file in written) == 12
    assert len(written) in (3, 4)
    assert {path.name for path in tmp_path.iterdir()} == {whole.path, *(file.path for file in written)}


def test_a_file_of_which_little_changes_is_written_in_pieces_that_are_not_cut_again(tmp_path):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64()), ("Text", pa.string())])
    texts = [sha256(f"{n}".encode()).hexdigest() for n in range(1_000)]
    rows = pa.table([[f"{n:04}" for n in range(1_000)], list(range(1_000)), texts], schema=schema)
    written = write_files(rows, local(tmp_path), piece_bytes=10_000)
    assert sum(file.rows for file in written) == 1_000
    assert 3 < len(written) < 9
    assert {path.name for path in tmp_path.iterdir()} == {file.path for file in written}
    again = rows.slice(0, written[0].rows)
    assert len(write_files(again, local(tmp_path), piece_bytes=10_000)) == 1
    assert len(write_files(rows, local(tmp_path), piece_bytes=10_000, changed=0)) == len(written)
    assert len(write_files(rows, local(tmp_path), piece_bytes=10_000, changed=len(written))) == 1, (
        "a batch that changes a row in each piece would write them all again"
    )
    assert len(write_files(rows, local(tmp_path))) == 1


def test_no_rows_make_no_file(tmp_path):
    schema = pa.schema([("Id", pa.string()), ("_position", pa.int64())])
    assert write_files(schema.empty_table(), local(tmp_path)) == []


def test_only_values_that_repeat_get_a_dictionary(tmp_path):
    count = 5_000
    table = pa.table(
        {
            "Id": [f"{number:018}" for number in range(count)],
            "Stage": [f"Stage {number % 7}" for number in range(count)],
            "Amount": np.arange(count) / 100,
            "Closed": [number % 3 == 0 for number in range(count)],
            "Empty": pa.nulls(count, pa.string()),
            "_changed_fields": pa.array([["Stage"]] * count),
        }
    )
    written = write_table(table, local(tmp_path))
    assert pq.read_table(tmp_path / written.path).equals(table)
    group = pq.ParquetFile(tmp_path / written.path).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    with_dictionary = {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}
    assert with_dictionary == {"Stage", "Empty", "_changed_fields.list.element"}


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("ids", [["a", "a", "a"], ["a", "b", "c"], ["a", None, "a"], ["b", "b", "b"]])
@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_rows_of_a_file_with_view_types_are_found_whatever_its_statistics_say(tmp_path, kind, ids, group):
    """delta-rs writes so what an UPDATE or a DELETE of any client leaves; Arrow refuses where a part has two values."""
    rows = pa.table({"Id": pa.array(ids, kind), "n": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "file.parquet", row_group_size=group)
    schema = pa.schema([("Id", pa.string()), ("n", pa.int64()), ("lacking", pa.string())])
    source = rows_of_files(["file.parquet"], schema, local(tmp_path))
    id_of = dict(enumerate(ids, 1))
    for wanted, expected in (
        (pc.field("Id") == "a", [n for n in id_of if id_of[n] == "a"]),
        (
            (pc.field("Id") >= "a") & (pc.field("Id") < "c") & (pc.field("n") > 1),
            [n for n in (2, 3) if id_of[n] in ("a", "b")],
        ),
        (pc.field("Id").isin(["b", "x"]), [n for n in id_of if id_of[n] == "b"]),
    ):
        found = pa.Table.from_batches(rows_where(source, wanted, ["n", "lacking"]), schema.remove(0))
        assert found["n"].to_pylist() == expected
        assert found["lacking"].null_count == found.num_rows
        assert pa.Table.from_batches(rows_where(source, wanted), schema).num_rows == len(expected)
