"""Which records changed although no event of their own says so, and since when."""

from __future__ import annotations

import datetime as dt

import polars as pl

from sfcdc_assets.change_events.columns import Column, ColumnType
from sfcdc_assets.state.baseline import READ_COLUMNS
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.merge import empty_rows
from sfcdc_assets.state.silent_change import POINTER, dated_by_reading, silently_changed

COLUMNS = (Column("Id", ColumnType.STRING, False, "id"), Column(POINTER, ColumnType.STRING, False, "reference"))


def at(second: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, 0, 0, second, tzinfo=dt.UTC)


def rows(*values: tuple[str, str | None, int], in_doubt: bool = False, seen: bool = True) -> pl.DataFrame:
    like = empty_rows(current_state_schema(COLUMNS))
    made = [
        {"Id": record_id, POINTER: pointer, "_position": position, "_in_doubt": in_doubt}
        | ({"_commit_timestamp": at(10)} if seen else {})
        for record_id, pointer, position in values
    ]
    return pl.DataFrame(made, schema=like.schema)


def told(before: pl.DataFrame, after: pl.DataFrame) -> set[tuple[object, object]]:
    return {(each["record_id"], each["position"]) for each in silently_changed(before, after)}


def test_a_contact_gained_or_lost_is_named_and_one_that_stays_is_not() -> None:
    before = rows(("a", None, 1), ("b", "c2", 1), ("d", "c4", 1), ("e", "c5", 1), ("f", None, 1))
    after = rows(("a", "c1", 7), ("b", None, 8), ("d", "c4", 9), ("e", "c6", 9), ("f", None, 9))
    assert told(before, after) == {("c1", 7), ("c2", 8), ("c5", 9), ("c6", 9)}


def test_a_new_account_and_one_that_was_only_named_tell_nothing() -> None:
    assert told(rows(), rows(("a", "c1", 7))) == set()
    assert told(rows(("a", None, 1), in_doubt=True, seen=False), rows(("a", "c1", 7))) == set()


def test_an_org_without_person_accounts_has_no_such_column() -> None:
    plain = rows(("a", None, 1)).drop(POINTER)
    assert silently_changed(plain, plain) == []


def test_a_reading_dates_only_what_the_org_itself_says_it_has_not_modified() -> None:
    like = empty_rows(READ_COLUMNS)
    modified = {"a": at(10), "b": at(11), "c": at(10), "new": at(10), "gone": None}
    reads = pl.DataFrame(
        [{"Id": key, "_system_modstamp": moment, "_read_at": at(30)} for key, moment in modified.items()],
        schema={"Id": pl.String(), **like.schema},
    )
    base = pl.concat([rows(("a", None, 1), ("b", None, 1), ("gone", None, 1)), rows(("c", None, 1), in_doubt=True)])
    dated = dict(dated_by_reading(reads, base).select("Id", "_system_modstamp").iter_rows())
    assert dated == {**modified, "a": at(30)}
