"""Which records changed although no event of their own says so, and since when."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.changes import CHANGES
from sfcdc_assets.timeline.implied_change import (
    FLAG,
    POINTER,
    dated,
    may_be_merged,
    not_in_step,
    possibly_merged,
    silently_changed,
)
from sfcdc_assets.timeline.read_rows import READ_COLUMNS
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.version_columns import current_state_schema

COLUMNS = (Column("Id", ColumnType.STRING, False, "id"), Column(POINTER, ColumnType.STRING, False, "reference"))


def at(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def rows(*values: tuple[str, str | None, int], suspects: bool = False) -> pl.DataFrame:
    like = empty_rows(current_state_schema(COLUMNS))
    made = [
        {"Id": record_id, POINTER: pointer, "_position": position, "_in_doubt": suspects, "_commit_timestamp": at(10)}
        for record_id, pointer, position in values
    ]
    return pl.DataFrame(made, schema=like.schema)


def changes(*values: tuple[str, str, int, str | None]) -> pl.DataFrame:
    """`CHANGES` of records: id, kind, position, what the cell of the pointer holds."""
    made = [
        {"record_id": record_id, "change_type": kind, "position": position, "cells": [cell(0, "x"), cell(1, pointer)]}
        for record_id, kind, position, pointer in values
    ]
    return pl.DataFrame(pa.Table.from_pylist(made, schema=CHANGES))


def cell(column: int, value: str | None) -> dict[str, object]:
    return {"column": column, "s": value, "d": None, "l": None}


def reported(before: pl.DataFrame, after: pl.DataFrame, *applied: tuple[str, str, int, str | None]) -> set[object]:
    found = silently_changed(before, changes(*applied), after, COLUMNS)
    return {(each.record_id, each.position) for each in found}


def test_a_contact_gained_or_lost_is_named_and_one_that_stays_is_not() -> None:
    before = rows(("a", None, 1), ("b", "c2", 1), ("d", "c4", 1), ("e", "c5", 1), ("f", None, 1))
    after = rows(("a", "c1", 7), ("b", None, 8), ("d", "c4", 9), ("e", "c6", 9), ("f", None, 9))
    assert reported(before, after) == {("c1", 7), ("c2", 8), ("c5", 9), ("c6", 9)}


def test_a_person_from_its_create_on_tells_nothing_and_one_that_became_a_person_since_does() -> None:
    assert reported(rows(), rows(("a", "c1", 7)), ("a", "CREATE", 7, "c1")) == set()
    assert reported(rows(), rows(("a", "c1", 8)), ("a", "CREATE", 7, None), ("a", "UPDATE", 8, "c1")) == {("c1", 8)}
    assert reported(rows(), rows(("a", None, 8)), ("a", "CREATE", 7, "c1"), ("a", "UPDATE", 8, None)) == {("c1", 8)}


def test_of_an_account_that_was_read_it_is_not_known_what_it_pointed_at() -> None:
    assert reported(rows(), rows(("a", "c1", 7))) == {("c1", 7)}
    assert reported(rows(("a", None, 1), suspects=True), rows(("a", "c1", 7))) == {("c1", 7)}


def test_an_org_without_person_accounts_has_no_such_column() -> None:
    plain = rows(("a", None, 1)).drop(POINTER)
    assert silently_changed(plain, changes(), plain, COLUMNS[:1]) == []


def test_contacts_are_compared_with_the_accounts_that_point_at_them() -> None:
    accounts = pl.DataFrame({POINTER: ["c1", "c2", None, "elsewhere"]})
    flags = {"c1": True, "c2": False, "c3": True, "c4": False, "c5": None}
    contacts = pl.DataFrame({"Id": list(flags), FLAG: list(flags.values())})
    assert not_in_step(accounts, contacts) == ["c2", "c3"]


def test_a_reading_dates_only_what_the_org_itself_says_it_has_not_modified() -> None:
    like = empty_rows(READ_COLUMNS)
    modified = {"a": at(10), "b": at(11), "c": at(10), "new": at(10), "gone": None}
    reads = pl.DataFrame(
        [{"Id": key, "_system_modstamp": moment, "_read_at": at(30)} for key, moment in modified.items()],
        schema={"Id": pl.String(), **like.schema},
    )
    base = pl.concat([rows(("a", None, 1), ("b", None, 1), ("gone", None, 1)), rows(("c", None, 1), suspects=True)])
    found = dict(dated(reads, base).select("Id", "dated").iter_rows())
    assert found == {**modified, "a": at(30), "gone": at(30)}


def test_a_snapshot_does_not_date_a_silent_change_before_it_can_have_happened() -> None:
    """A wildcard holds all rows; those that the org has not modified had their values until they were read."""
    reported, read = at(1), at(2)
    base = pl.DataFrame({"Id": ["1"], "_in_doubt": [True], "_commit_timestamp": [reported]})
    reads = pl.DataFrame({"Id": ["1"], "_system_modstamp": [reported], "_read_at": [read]})
    assert dated(reads, base, suspects_too=True)["dated"].to_list() == [read]
    assert dated(reads, base)["dated"].to_list() == [reported]


def merged(*events: tuple[str, str, str], entity: str = "Case") -> set[str]:
    """Ids of records that may have been merged; events: a letter for the transaction, the kind, a letter a record."""
    headers = pl.DataFrame(
        [
            {"position": position, "transaction_key": key, "change_type": kind, "record_ids": list(record_ids)}
            for position, (key, kind, record_ids) in enumerate(events, 1)
        ],
        schema_overrides={"record_ids": pl.List(pl.String)},
    )
    found = possibly_merged(headers) if may_be_merged(entity, headers) else []
    assert {suspect.reason for suspect in found} <= {Reason.SILENT_CHANGE}
    assert all(suspect.record_id in events[suspect.position - 1][2] for suspect in found)
    return {suspect.record_id for suspect in found}


def test_what_is_deleted_beside_an_update_of_another_record_may_have_been_merged_into_it() -> None:
    assert merged(("x", "DELETE", "ab"), ("x", "UPDATE", "m")) == {"a", "b"}
    assert merged(("x", "UPDATE", "m"), ("x", "DELETE", "a"), ("x", "DELETE", "b")) == {"a", "b"}
    assert merged(("x", "DELETE", "abcd"), ("x", "UPDATE", "mn")) == {"a", "b", "c", "d"}
    assert merged(("x", "UPDATE", "am"), ("x", "DELETE", "a")) == {"a"}, "a loser may have been updated before"


def test_a_delete_that_can_be_no_merge_costs_no_read() -> None:
    assert merged(("x", "DELETE", "a"), ("y", "UPDATE", "m")) == set(), "another transaction"
    assert merged(("x", "DELETE", "abc"), ("x", "UPDATE", "m")) == set(), "more than a master takes in"
    assert merged(("x", "UPDATE", "ab"), ("x", "DELETE", "ab")) == set(), "updated and then deleted: no master is left"
    assert merged(("x", "DELETE", "a"), ("x", "CREATE", "m")) == set(), "a master was there before"
    assert merged(("x", "DELETE", "a"), ("x", "UPDATE", "m"), entity="Task") == set(), "an object without merges"
    assert merged(("x", "DELETE", ""), ("x", "UPDATE", "m")) == set(), "a delete that names no record"
