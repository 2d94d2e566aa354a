"""The fold's algebra and the merge into rows, without Spark."""

from __future__ import annotations

import datetime as dt

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
from hypothesis import given

from sfcdc_assets.change_events.columns import Column, ColumnType
from sfcdc_assets.state.changes import CELL, CHANGES
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.merge import empty_rows, merge

COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Amount", ColumnType.DOUBLE, False, "currency"),
    Column("Count", ColumnType.INT, False, "int"),
    Column("Active", ColumnType.BOOLEAN, False, "boolean"),
    Column("Born", ColumnType.DATE, False, "date"),
    Column("Seen", ColumnType.TIMESTAMP, False, "datetime"),
)
MEMBERS = {1: "s", 2: "d", 3: "l", 4: "l", 5: "l", 6: "l"}
SCHEMA = current_state_schema(COLUMNS)


def change(record_id, position, change_type, **values):
    """A change with a cell for each named column; the value is in its wire form (dates in days, times in us)."""
    names = [column.name for column in COLUMNS]
    cells = []
    for name, value in values.items():
        index = names.index(name)
        cells.append({"column": index, "s": None, "d": None, "l": None, MEMBERS[index]: value})
    return {
        "leaf": 0,
        "record_id": record_id,
        "position": position,
        "change_type": change_type,
        "commit_timestamp": position * 1_000_000,
        "commit_user": f"u{position}",
        "transaction_key": f"t{position}",
        "cells": cells,
        "diff_columns": [],
        "error": None,
    }


def frame(changes):
    assert CHANGES.field("cells").type.value_type == CELL
    return pl.DataFrame(pa.Table.from_pylist(changes, schema=CHANGES))


def merged(base, changes):
    result = merge(base, frame(changes), COLUMNS)
    return result.rows, result.counts


def rows(frame):
    return {row["Id"]: row for row in frame.to_dicts()}


def everything(name, **values):
    return {"Name": name, "Amount": None, "Count": None, "Active": None, "Born": None, "Seen": None} | values


def test_an_update_changes_only_the_fields_it_names():
    base, _ = merged(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x", Amount=2.5, Count=7))])
    after, counts = merged(base, [change("a", 2, "UPDATE", Name="y")])
    row = rows(after)["a"]
    assert (row["Name"], row["Amount"], row["Count"], row["_position"]) == ("y", 2.5, 7, 2)
    assert (counts.inserted, counts.updated) == (0, 1)


def test_a_nulled_field_is_not_the_same_as_an_unchanged_one():
    base, _ = merged(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x", Amount=2.5, Count=7))])
    after, _ = merged(base, [change("a", 2, "UPDATE", Amount=None)])
    assert (rows(after)["a"]["Amount"], rows(after)["a"]["Count"]) == (None, 7)


def test_values_of_every_type_arrive_in_their_columns():
    after, _ = merged(
        empty_rows(SCHEMA), [change("a", 1, "CREATE", Name="n", Amount=0.1, Count=-3, Active=1, Born=-1, Seen=-1)]
    )
    row = rows(after)["a"]
    assert row["Active"] is True
    assert row["Born"] == dt.date(1969, 12, 31)
    assert row["Seen"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    assert (row["Name"], row["Amount"], row["Count"]) == ("n", 0.1, -3)


def test_a_delete_keeps_the_row_and_an_undelete_brings_it_back():
    base, _ = merged(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x"))])
    gone, counts = merged(base, [change("a", 2, "DELETE")])
    row = rows(gone)["a"]
    assert (row["_is_deleted"], row["_deleted_reason"], row["Name"], counts.deleted) == (True, "deleted", "x", 1)
    back, _ = merged(gone, [change("a", 3, "UNDELETE", **everything("x2"))])
    row = rows(back)["a"]
    assert (row["_is_deleted"], row["_deleted_reason"], row["Name"]) == (False, None, "x2")


def test_an_update_of_a_record_never_seen_makes_a_row_in_doubt():
    after, counts = merged(empty_rows(SCHEMA), [change("a", 5, "UPDATE", Name="y")])
    assert rows(after)["a"]["_in_doubt"] is True
    assert counts.in_doubt == 1


def test_a_change_the_row_already_stands_for_is_dropped():
    base, _ = merged(empty_rows(SCHEMA), [change("a", 7, "CREATE", **everything("read"))])
    after, counts = merged(base, [change("a", 6, "UPDATE", Name="old"), change("a", 7, "UPDATE", Name="old")])
    assert rows(after)["a"]["Name"] == "read"
    assert counts.updated == 0


def test_a_gap_holds_the_record_and_what_comes_after_waits():
    base, _ = merged(empty_rows(SCHEMA), [change("a", 1, "CREATE", **everything("x"))])
    changes = [change("a", 2, "UPDATE", Name="y"), change("a", 3, "GAP_UPDATE"), change("a", 4, "UPDATE", Name="z")]
    held, counts = merged(base, changes)
    row = rows(held)["a"]
    assert (row["_in_doubt"], row["Name"], row["_position"]) == (True, "y", 2)
    assert (counts.in_doubt, counts.waiting) == (1, 1)
    later, counts = merged(held, [change("a", 5, "UPDATE", Name="w"), change("b", 6, "CREATE", **everything("flows"))])
    assert rows(later)["a"]["Name"] == "y"
    assert rows(later)["b"]["Name"] == "flows"
    assert (counts.in_doubt, counts.waiting, counts.inserted) == (0, 1, 1)


IDS = st.sampled_from(["a", "b", "c", "d"])
NAMES = st.one_of(st.none(), st.sampled_from(["x", "y", "z"]))


@st.composite
def lives(draw):
    """A stream of changes as an org sends them: positions dense, creates first, deletes only of the living."""
    alive: dict[str, bool] = {}
    changes = []
    for position in range(1, draw(st.integers(2, 24))):
        record = draw(IDS)
        if record not in alive:
            changes.append(change(record, position, "CREATE", **everything(draw(NAMES), Count=position)))
            alive[record] = True
        elif not alive[record]:
            changes.append(change(record, position, "UNDELETE", **everything(draw(NAMES), Count=position)))
            alive[record] = True
        elif draw(st.booleans()):
            changes.append(
                change(
                    record,
                    position,
                    "UPDATE",
                    **draw(
                        st.fixed_dictionaries(
                            {},
                            optional={
                                "Name": NAMES,
                                "Amount": st.one_of(st.none(), st.floats(0, 9)),
                                "Count": st.one_of(st.none(), st.integers(0, 9)),
                            },
                        )
                    ),
                )
            )
        else:
            changes.append(change(record, position, "DELETE"))
            alive[record] = False
    return changes


def plainly(changes):
    """The same by a dictionary and a loop."""
    state: dict[str, dict] = {}
    for one in sorted(changes, key=lambda item: item["position"]):
        row = state.setdefault(one["record_id"], {"_is_deleted": False})
        for cell in one["cells"]:
            row[COLUMNS[cell["column"]].name] = cell[MEMBERS[cell["column"]]]
        if one["change_type"] in ("DELETE", "CREATE", "UNDELETE"):
            row["_is_deleted"] = one["change_type"] == "DELETE"
        row["_position"] = one["position"]
    return state


@given(lives(), st.integers(0, 24), st.randoms())
def test_folding_in_any_batches_and_any_order_within_them_gives_what_a_plain_loop_gives(changes, cut, random):
    first, second = changes[:cut], changes[cut:]
    random.shuffle(first)
    random.shuffle(second)
    base, _ = merged(empty_rows(SCHEMA), first)
    after, _ = merged(base, second)
    expected = plainly(changes)
    found = rows(after)
    assert found.keys() == expected.keys()
    for record, row in expected.items():
        assert {name: found[record][name] for name in row} == row
        assert found[record]["_in_doubt"] is False
    again, counts = merged(after, changes)
    assert again.equals(after)
    assert (counts.inserted, counts.updated) == (0, 0)


@given(lives())
def test_rows_come_sorted_by_id_once_each(changes):
    after, _ = merged(empty_rows(SCHEMA), changes)
    ids = after["Id"].to_list()
    assert ids == sorted(set(ids))
