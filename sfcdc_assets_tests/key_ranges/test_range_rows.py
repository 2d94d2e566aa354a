"""A batch sees only the rows that it concerns, and what it writes is what it would have written seeing all of them."""

from __future__ import annotations

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from pyarrow import fs

from sfcdc_assets.key_ranges.key_ranges import KeyRange
from sfcdc_assets.key_ranges.range_rows import RangeRows
from sfcdc_assets.timeline.timeline import Timeline
from sfcdc_assets.timeline.version_columns import current_state_schema
from sfcdc_assets_tests.timeline.builders import COLUMNS, change, everything, frame, read, read_back, row, timeline

SCHEMA = current_state_schema(COLUMNS)
IDS = st.text("abcdxyz", min_size=1, max_size=2)


def changes_of(ids: list[tuple[str, str]], first: int) -> pl.DataFrame:
    return frame(
        change(record_id, position, kind, **(everything(f"n{position}") if kind == "CREATE" else {"Count": position}))
        for position, (record_id, kind) in enumerate(ids, first)
    )


@given(
    st.lists(IDS, max_size=12, unique=True),
    st.lists(st.tuples(IDS, st.sampled_from(["CREATE", "UPDATE", "UPDATE", "DELETE", "GAP_UPDATE"])), max_size=12),
    st.lists(IDS, max_size=3, unique=True),
)
def test_a_batch_that_sees_only_what_it_concerns_writes_what_one_that_sees_all_rows_writes(present, wanted, read_ids):
    before = timeline(*(change(i, n, "CREATE", **everything(f"n{n}")) for n, i in enumerate(present, 1))).rows.sort(
        "Id"
    )
    changes = changes_of(wanted, 100)
    shown = [read(record_id, 200, at=150.0, Name="shown") for record_id in read_ids]
    found = []
    ids = pl.concat([changes["record_id"], pl.Series("Id", read_ids, pl.String)]).unique()
    for concerned in (None, ids):
        rows = RangeRows(before, SCHEMA)
        followed = Timeline(COLUMNS, rows.take(concerned), 2)
        followed.follow(changes)
        if shown:
            read_back(followed, *shown)
        superseded = followed.superseded.sort("Id", "_position").to_dicts()
        written = rows.put_back(followed.rows)
        found.append((written.to_pylist(), superseded, sorted(followed.suspects, key=str), followed.counts))
        assert written.schema.equals(SCHEMA)
    assert found[0] == found[1]
    assert [each["Id"] for each in found[0][0]] == sorted({*present, *(each["Id"] for each in found[0][0])})


def test_a_file_that_is_not_sorted_or_has_other_types_and_columns_is_read_all_the_same(tmp_path):
    pq.write_table(
        pa.table(
            {
                "Id": pa.array(["c", "a", "b"], pa.large_string()),
                "Count": pa.array([3, 1, 2], pa.int32()),
                "Gone": [1, 2, 3],
            }
        ),
        tmp_path / "odd.parquet",
    )
    pq.write_table(pa.table({"Id": ["e", "d", "z"]}), tmp_path / "few.parquet")
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    rows = RangeRows.read(filesystem, KeyRange(0, "b", "z", files=("odd.parquet", "few.parquet")), SCHEMA)
    taken = rows.take(pl.Series(["c", "q"]))
    assert taken["Id"].to_list() == ["c"]
    assert taken.schema == pl.DataFrame(SCHEMA.empty_table()).schema
    back = rows.put_back(
        pl.concat([taken.with_columns(Count=pl.lit(9, pl.Int32)), taken.with_columns(Id=pl.lit("bb"))])
    )
    assert back.select(["Id", "Count"]).to_pylist() == [
        {"Id": "b", "Count": 2},
        {"Id": "bb", "Count": 3},
        {"Id": "c", "Count": 9},
        {"Id": "d", "Count": None},
        {"Id": "e", "Count": None},
    ]


def test_rows_of_an_empty_key_range_are_those_put_into_it(tmp_path):
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    rows = RangeRows.read(filesystem, KeyRange(0, "", None), SCHEMA)
    assert rows.take(pl.Series(["a"])).is_empty()
    made = timeline(change("a", 1, "CREATE", **everything("n")))
    assert [each["Id"] for each in rows.put_back(made.rows).to_pylist()] == [row(made)["Id"]]
