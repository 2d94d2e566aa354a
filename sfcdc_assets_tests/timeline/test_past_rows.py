"""Where versions from field history stand among a record's versions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.timeline.field_history import HistoryRow
from sfcdc_assets.timeline.past_rows import (
    FIELD_HISTORY,
    first_version,
    first_versions,
    kept_before,
    past_rows,
    without_a_past,
)
from sfcdc_assets.timeline.past_versions import fold_history
from sfcdc_assets.timeline.value_chain import value_chain
from sfcdc_assets.timeline.version_columns import IN_ORDER, history_schema
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

COLUMNS = (
    ID_COLUMN,
    Column("Name", ColumnType.STRING, shape=(80, 0, 0)),
    Column("CreatedDate", ColumnType.TIMESTAMP, salesforce_type="datetime"),
)
SCHEMA = arrow_frame(history_schema(COLUMNS).empty_table()).schema
T0 = datetime(2026, 1, 1, tzinfo=UTC)
RECORD, OTHER = "001000000000001AAA", "001000000000002AAA"


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def version(record_id: str, kind: str, position: int, began: float, ended: float | None, **more: Any) -> dict[str, Any]:
    until, superseded = (None, None) if ended is None else (at(ended), position + 1)
    return {
        "Id": record_id, "_change_type": kind, "_position": position, "_valid_from": at(began), "_valid_to": until,
        "_superseded_at": superseded, "_batch": 3, "_certain_fields": None, **more,
    }  # fmt: skip


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in SCHEMA.names()} for row in rows], schema=SCHEMA)


def folded_before(first: dict[str, Any], *changes: tuple[float, str, str]) -> pl.DataFrame:
    rows = [HistoryRow(str(moment), "Name", old, new, at(moment)) for moment, old, new in changes]
    folded = fold_history(COLUMNS, first_version(first, COLUMNS), rows)
    return frame(*past_rows(folded, first, 7))


FIRST = version(RECORD, "SNAPSHOT", 40, 100, 200, Name="c", CreatedDate=T0)


def test_versions_from_field_history_come_before_the_first_in_every_order_and_lead_up_to_it() -> None:
    now = version(RECORD, "UPDATE", 41, 200, None, Name="d", CreatedDate=T0)
    past = folded_before(FIRST, (10, "a", "b"), (20, "b", "c"))
    every = pl.concat([frame(now), past, frame(FIRST)])
    assert_versions_follow(every.to_dicts())
    ordered = every.sort(IN_ORDER, nulls_last=True)
    assert ordered["_change_type"].to_list() == [*[FIELD_HISTORY] * 3, "SNAPSHOT", "UPDATE"]
    assert ordered["Name"].to_list() == [None, "b", "c", "c", "d"]
    assert ordered["_certain_fields"].to_list()[:3] == [
        ["CreatedDate"],
        ["Name", "CreatedDate"],
        ["Name", "CreatedDate"],
    ]
    assert ordered["_changed_fields"].to_list()[:3] == [None, ["Name"], ["Name"]]
    assert set(past["_batch"]) == {7}


def test_they_come_first_too_where_the_first_version_is_valid_for_no_position_or_time_of_its_own() -> None:
    first = {**FIRST, "_superseded_at": 40, "_valid_to": at(100)}
    now = version(RECORD, "REFETCH", 40, 100, None, Name="d")
    every = pl.concat([frame(now, first), folded_before(first, (10, "a", "b"))])
    assert_versions_follow(every.to_dicts())
    assert first_versions(every)["_change_type"].to_list() == [FIELD_HISTORY]


def test_nothing_is_before_a_creation_nor_before_what_was_folded() -> None:
    created = version(OTHER, "CREATE", 41, 100, None)
    firsts = first_versions(frame(FIRST, created))
    assert firsts["Id"].to_list() == [RECORD, OTHER]
    assert without_a_past(firsts)["Id"].to_list() == [RECORD]
    again = first_versions(pl.concat([frame(FIRST), folded_before(FIRST, (10, "a", "b"))]))
    assert without_a_past(again).is_empty()


def test_after_a_rebuild_those_are_kept_that_lead_up_to_the_same_first_version_at_its_new_position() -> None:
    past = pl.concat([folded_before(FIRST, (10, "a", "b")), folded_before({**FIRST, "Id": OTHER}, (10, "a", "b"))])
    same = {**FIRST, "_position": 90, "_superseded_at": 91}
    later = {**FIRST, "Id": OTHER, "_position": 90, "_superseded_at": 91, "_valid_from": at(150)}
    kept = kept_before(past, first_versions(frame(same, later)), 12)
    assert set(kept["Id"]) == {RECORD}
    assert set(kept["_batch"]) == {12}
    assert_versions_follow(
        pl.concat([kept.select(SCHEMA.names()), frame({**same, "_valid_to": None, "_superseded_at": None})]).to_dicts()
    )


def test_a_chain_of_values_says_where_nothing_proves_them() -> None:
    now = version(RECORD, "UPDATE", 41, 200, None, Name="d", CreatedDate=T0, _changed_fields=["Name"])
    past = folded_before(FIRST, (10, "a", "b"), (20, "x", "c"))
    chain = value_chain(pl.concat([frame(now, FIRST), past]), ["Name"])
    found = list(zip(chain["value"], chain["change_type"], chain["valid_from"], strict=True))
    assert found == [
        (None, "UNKNOWN", T0),
        (None, "UNKNOWN", at(10)),
        ("c", FIELD_HISTORY, at(20)),
        ("d", "UPDATE", at(200)),
    ]


def test_what_a_first_version_has_in_a_column_that_came_later_is_not_its_value() -> None:
    came = (*COLUMNS[:1], replace(COLUMNS[1], came_at=41), *COLUMNS[2:])
    first = {**FIRST, "Name": None}
    rows = [HistoryRow("1", "Name", "a", None, at(10))]
    (_, last) = fold_history(COLUMNS, first_version(first, COLUMNS), rows).versions
    assert "Name" in last.values
    (_, last) = fold_history(came, first_version(first, came), rows).versions
    assert "Name" not in last.values
