"""Rows, changes and reads for tests of state, each in one line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame, empty_rows
from sfcdc_assets.timeline.changes import CHANGES, UNDECODABLE
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import OF_THE_ROW, current_state_schema

COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Amount", ColumnType.DOUBLE, False, "currency"),
    Column("Count", ColumnType.INT, False, "int"),
    Column("Active", ColumnType.BOOLEAN, False, "boolean"),
    Column("Born", ColumnType.DATE, False, "date"),
    Column("Seen", ColumnType.TIMESTAMP, False, "datetime"),
    Column("Description", ColumnType.STRING, True, "textarea"),
)
NAMES = tuple(column.name for column in COLUMNS)
_MEMBERS = {ColumnType.STRING: "s", ColumnType.DOUBLE: "d"}


def second(number: float) -> dt.datetime:
    """A time so many seconds after 1970."""
    return dt.datetime.fromtimestamp(number, dt.UTC)


def everything(name: str | None, **values: object) -> dict[str, object]:
    """A value for each column of `COLUMNS`, as a create carries."""
    return dict.fromkeys(NAMES[1:]) | {"Name": name} | values


def cells(values: Mapping[str, Any], columns: Sequence[Column] = COLUMNS) -> list[dict[str, object]]:
    """Cells of values in their wire form: dates in days, times in us."""
    index = {column.name: number for number, column in enumerate(columns)}
    made = []
    for name, value in values.items():
        member = _MEMBERS.get(columns[index[name]].type, "l")
        held = int(value) if member == "l" and value is not None else value
        made.append({"column": index[name], "s": None, "d": None, "l": None} | {member: held})
    return made


def change(
    record_id: str,
    position: int,
    change_type: str = "UPDATE",
    *,
    diffs: Sequence[str] = (),
    missing: str | None = None,
    unproven: Sequence[str] = (),
    enriched: Mapping[str, object] | None = None,
    at: float | None = None,
    columns: Sequence[Column] = COLUMNS,
    **values: object,
) -> dict[str, object]:
    """A row of `CHANGES`, committed `position` (or `at`) seconds after 1970."""
    index = {column.name: number for number, column in enumerate(columns)}
    return {
        "key_range": 0,
        "record_id": record_id,
        "position": position,
        "change_type": change_type,
        "commit_timestamp": int((position if at is None else at) * 1_000_000),
        "commit_user": f"u{position}",
        "change_origin": f"o{position}",
        "transaction_key": f"t{position}",
        "cells": cells(values, columns),
        "diff_columns": [index[name] for name in diffs],
        "enriched": cells(enriched or {}, columns),
        "error": "garbled" if change_type == UNDECODABLE else None,
        "missing": missing,
        "unproven": [index[name] for name in unproven] or None,
    }


def frame(changes: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """As `CHANGES`."""
    return arrow_frame(pa.Table.from_pylist(list(changes), schema=CHANGES))


def read(record_id: str, position: int, at: float | None = None, **values: object) -> dict[str, object]:
    """A row read from the org, modified `at` seconds after 1970; gone if that is None."""
    return {
        "Id": record_id,
        "_is_deleted": at is None,
        "_system_modstamp": None if at is None else second(at),
        "_position": position,
        "_read_at": second(999),
        **values,
    }


def reads(rows: Iterable[Mapping[str, object]], columns: Sequence[Column] = COLUMNS) -> pl.DataFrame:
    """As `read_schema`."""
    return arrow_frame(pa.Table.from_pylist(list(rows), schema=read_schema(columns)))


def new_timeline(columns: Sequence[Column], batch: int) -> Timeline:
    """One without rows."""
    return Timeline(columns, empty_rows(current_state_schema(columns)), batch)


def timeline(*changes: Mapping[str, object], columns: Sequence[Column] = COLUMNS) -> Timeline:
    """One that has followed these changes from nothing."""
    made = new_timeline(columns, 1)
    made.follow(frame(changes))
    return made


def timeline_of(changes: pa.RecordBatch, columns: Sequence[Column]) -> Timeline:
    """One that has followed changes (`CHANGES`) of one key range from nothing."""
    made = new_timeline(columns, 1)
    made.follow(arrow_frame(pa.Table.from_batches([changes])))
    return made


def follow(rows: pl.DataFrame, *changes: Mapping[str, object], columns: Sequence[Column] = COLUMNS) -> Timeline:
    """The next batch: one that has followed these changes from a table's rows."""
    made = Timeline(columns, rows, 2)
    made.follow(frame(changes))
    return made


def read_back(of: Timeline, *rows: Mapping[str, Any], columns: Sequence[Column] = COLUMNS) -> Timeline:
    """Put rows that were read back together where their watermark is."""
    position = int(rows[0]["_position"])
    of.put(OrgRead(position, position, read_back=1), reads(rows, columns))
    return of


def snapshot(of: Timeline, position: int, *rows: Mapping[str, object], columns: Sequence[Column] = COLUMNS) -> Timeline:
    """Put a snapshot with a watermark at a position."""
    of.put(OrgRead(position, position, snapshot=1), reads(rows, columns))
    return of


def row(of: Timeline, record_id: str = "a") -> dict[str, Any]:
    """The record's row."""
    return of.rows.row(by_predicate=pl.col("Id") == record_id, named=True)


def suspects(of: Timeline) -> dict[str, tuple[str, int]]:
    """Record id -> reason and position."""
    return {each.record_id: (each.reason, each.position) for each in of.suspects}


def versions(*timelines: Timeline) -> list[dict[str, Any]]:
    """All versions of successive batches, as history and current state have them: the last timeline's rows have no
    end. In order."""
    superseded = pl.concat([each.superseded for each in timelines])
    current = timelines[-1].rows.filter(pl.col("_change_type").is_not_null())
    whole = pl.concat([superseded, current.drop(OF_THE_ROW)], how="diagonal")
    return whole.sort("Id", "_position", "_superseded_at", nulls_last=True).to_dicts()


def reported(rows: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """These columns of each row."""
    return [tuple(each[name] for name in names) for each in rows]
