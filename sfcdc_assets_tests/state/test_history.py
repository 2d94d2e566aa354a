"""Versions: every change is one, they follow one another without holes, and batches do not show."""

from __future__ import annotations

import datetime as dt

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from sfcdc_assets.state.baseline import READ_COLUMNS
from sfcdc_assets.state.changes import CHANGES
from sfcdc_assets.state.history import history_schema, next_versions
from sfcdc_assets.state.merge import empty_rows, merge
from sfcdc_assets_tests.state.test_merge import COLUMNS, change, everything, lives
from sfcdc_assets_tests.state.test_merge import SCHEMA as STATE_SCHEMA

SCHEMA = history_schema(COLUMNS)
READS = pa.schema(
    [
        *[field for field in SCHEMA if not field.name.startswith("_")],
        *READ_COLUMNS,
        ("read_type", pa.string()),
    ]
)


def second(number):
    return dt.datetime.fromtimestamp(number, dt.UTC)


def frame(changes):
    return pl.DataFrame(pa.Table.from_pylist(list(changes), schema=CHANGES))


def reads(*rows):
    return pl.DataFrame(pa.Table.from_pylist(list(rows), schema=READS))


def read(record_id, position, at, read_type="SNAPSHOT", deleted=False, **values):
    return {
        "Id": record_id,
        "_position": position,
        "_system_modstamp": None if at is None else second(at),
        "_is_deleted": deleted,
        "_read_at": second(999),
        "read_type": read_type,
        **values,
    }


def follow(opened, changes=(), read_rows=()):
    return next_versions(opened, frame(changes), reads(*read_rows), COLUMNS)


def told(frame, *names):
    return [tuple(row[name] for name in names) for row in frame.sort("_position", "_valid_from").to_dicts()]


def test_each_change_is_a_version_and_the_last_is_open():
    result = follow(
        empty_rows(SCHEMA),
        [
            change("a", 1, "CREATE", **everything("x", Count=1)),
            change("a", 2, "UPDATE", Name="y"),
            change("a", 3, "DELETE"),
        ],
    )
    assert told(result.closed, "Name", "Count", "_change_type", "_valid_from", "_valid_to") == [
        ("x", 1, "CREATE", second(1), second(2)),
        ("y", 1, "UPDATE", second(2), second(3)),
    ]
    assert told(result.open, "Name", "_change_type", "_valid_to") == [("y", "DELETE", None)]
    assert result.closed.sort("_position")["_changed_fields"].to_list() == [None, ["Name"]]


def test_an_object_of_which_only_the_ids_are_kept_has_versions_too():
    columns = COLUMNS[:1]
    schema = history_schema(columns)
    changes = [change("a", 1, "CREATE"), change("a", 2, "UPDATE"), change("a", 3, "DELETE")]
    again = reads(read("a", 4, 5, "REFETCH", deleted=True)).select("Id", *READ_COLUMNS.names, "read_type")
    result = next_versions(empty_rows(schema), frame(changes), again, columns)
    assert told(result.closed, "_change_type", "_changed_fields") == [("CREATE", None), ("UPDATE", [])]
    assert told(result.open, "_change_type", "_position") == [("DELETE", 3)]


def test_a_delete_and_an_undelete_are_versions():
    opened = follow(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x"))]).open
    result = follow(opened, [change("a", 2, "DELETE"), change("a", 3, "UNDELETE", **everything("back"))])
    assert told(result.closed, "_change_type") == [("CREATE",), ("DELETE",)]
    assert told(result.open, "Name", "_change_type") == [("back", "UNDELETE")]


def test_a_snapshot_row_is_a_first_version_and_a_repeated_one_tells_nothing():
    first = follow(empty_rows(SCHEMA), (), [read("a", 0, 5, Name="x")])
    assert told(first.open, "Name", "_change_type", "_valid_from") == [("x", "SNAPSHOT", second(5))]
    again = follow(first.open, (), [read("a", 7, 6, Name="x")])
    assert (again.added, again.closed.height) == (0, 0)
    assert again.open.equals(first.open)


def test_refetched_values_are_a_version_marked_as_such_with_the_fields_that_differ():
    opened = follow(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x", Count=1))]).open
    result = follow(opened, (), [read("a", 4, 9, "REFETCH", Name="z", Count=1)])
    assert told(result.open, "Name", "Count", "_change_type", "_changed_fields") == [("z", 1, "REFETCH", ["Name"])]
    assert told(result.closed, "_valid_to") == [(second(9),)]


def test_a_record_found_gone_gets_a_delete_version_with_its_last_values():
    opened = follow(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x"))]).open
    result = follow(opened, (), [read("a", 4, None, "REFETCH", deleted=True)])
    assert told(result.open, "Name", "_change_type", "_valid_from") == [("x", "DELETE", second(999))]


def test_an_event_older_than_the_read_is_in_it_already_and_is_no_version():
    opened = follow(empty_rows(SCHEMA), (), [read("a", 0, 100, Name="newest")]).open
    result = follow(opened, [change("a", 50, "UPDATE", Name="older"), change("a", 150, "UPDATE", Name="later")])
    assert told(result.open, "Name") == [("later",)]
    assert told(result.closed, "Name") == [("newest",)]


def test_times_that_run_backwards_do_not_make_versions_overlap():
    changes = [change("a", 1, "CREATE", **everything("x")), change("a", 2, "UPDATE", Name="y")]
    changes[1]["commit_timestamp"] = 0
    result = follow(empty_rows(SCHEMA), changes)
    assert told(result.closed, "_valid_from", "_valid_to") == [(second(1), second(1))]


def at(versions, moment):
    """The living rows at a moment: one WHERE clause."""
    valid = (pl.col("_valid_from") <= moment) & (pl.col("_valid_to").is_null() | (pl.col("_valid_to") > moment))
    return {row["Id"]: row for row in versions.filter(valid & (pl.col("_change_type") != "DELETE")).to_dicts()}


@given(lives(), st.integers(0, 24), st.integers(0, 26))
def test_at_any_moment_history_tells_what_applying_the_changes_up_to_then_gives(changes, cut, moment):
    first = follow(empty_rows(SCHEMA), changes[:cut])
    second_batch = follow(first.open, changes[cut:])
    versions = pl.concat([first.closed, second_batch.closed, second_batch.open])
    whole = follow(empty_rows(SCHEMA), changes)
    key = ["Id", "_position"]
    assert versions.sort(key).equals(pl.concat([whole.closed, whole.open]).sort(key))
    until = [each for each in changes if each["position"] <= moment]
    state = merge(empty_rows(STATE_SCHEMA), frame(until), COLUMNS).rows.filter(~pl.col("_is_deleted"))
    names = [column.name for column in COLUMNS]
    expected = {row["Id"]: {name: row[name] for name in names} for row in state.to_dicts()}
    found = {record: {name: row[name] for name in names} for record, row in at(versions, second(moment)).items()}
    assert found == expected
    again = follow(second_batch.open, changes)
    assert (again.added, again.closed.height) == (0, 0)


@pytest.mark.parametrize("count", [1, 3])
def test_one_version_of_each_record_is_open(count):
    changes = [change(f"r{n}", n + 1, "CREATE", **everything("x")) for n in range(count)]
    result = follow(empty_rows(SCHEMA), changes)
    assert result.open["_valid_to"].null_count() == result.open.height == count
