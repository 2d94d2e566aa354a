"""Records as the org's REST side gives them, made rows with the types of the entity's columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.hashed_value import hashed_array, plain_arrow_type
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.timeline.read_rows import read_schema

MODIFIED = Column("SystemModstamp", ColumnType.TIMESTAMP, salesforce_type="datetime")
MERGED_INTO = Column("MasterRecordId", ColumnType.STRING, salesforce_type="reference")


def typed_rows(
    source: str,
    found: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Column],
    unread: Sequence[str] | None,
    position: int,
    read_at: dt.datetime,
    stamp: str = MODIFIED.name,
) -> tuple[pa.Table, dict[str, str]]:
    """Return records (by Id, as REST gives them under the columns' names) as rows: the columns, then `READ_COLUMNS`;
    and what is wrong with those that have a value which does not convert, which are left out. `stamp`: the field that
    says when a record was changed."""
    modified = replace(MODIFIED, name=stamp)
    spoiled = spoiled_records(source, found, (*columns, modified, MERGED_INTO))
    rows = [row for record_id, row in found.items() if record_id not in spoiled]
    return _table(source, rows, columns, unread, position, read_at, modified), spoiled


def spoiled_records(source: str, found: Mapping[str, Mapping[str, Any]], columns: Sequence[Column]) -> dict[str, str]:
    """Return records with a value that does not convert, and what is wrong with it. One by one only where one of all
    is."""
    spoiled: dict[str, str] = {}
    for column in columns:
        try:
            rest_array(column, [row.get(column.name) for row in found.values()], source)
        except UnexpectedAnswer:
            for record_id, row in found.items():
                try:
                    rest_array(column, [row.get(column.name)], source)
                except UnexpectedAnswer as error:
                    spoiled.setdefault(record_id, str(error))
    return spoiled


def _table(
    source: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    unread: Sequence[str] | None,
    position: int,
    read_at: dt.datetime,
    stamp: Column,
) -> pa.Table:
    schema = read_schema(columns)
    arrays = {column.name: rest_array(column, [row.get(column.name) for row in rows], source) for column in columns}
    values: dict[str, list[Any]] = {}
    modified = [_typed(stamp, row.get(stamp.name)) for row in rows]
    values["_is_deleted"] = [
        bool(row.get("IsDeleted")) or stamp is None for row, stamp in zip(rows, modified, strict=True)
    ]
    values["_system_modstamp"] = modified
    values["_master_record_id"] = [_typed(MERGED_INTO, row.get(MERGED_INTO.name)) for row in rows]
    values["_position"] = [position] * len(rows)
    values["_read_at"] = [read_at] * len(rows)
    values["_unread"] = [unread] * len(rows)
    arrays |= {name: pa.array(values[name], schema.field(name).type) for name in values}
    return pa.table({name: arrays[name] for name in schema.names}, schema=schema)


def rest_array(column: Column, values: Sequence[Any], source: str) -> pa.Array:
    """REST values (docs/salesforce-streams.md, "SOQL queries") as the column has them; hashed ones are hashed here.

    Raises `UnexpectedAnswer` for a value that does not fit; it is the org's data and not quoted.
    """
    try:
        plain = pa.array([_typed(column, value) for value in values], plain_arrow_type(column))
    except (ValueError, TypeError, OverflowError):
        raise UnexpectedAnswer(source, f"{column.name} holds a value that is no {column.plain_type}") from None
    return plain if column.hash_key is None else hashed_array(column, plain)


def _typed(column: Column, value: Any) -> Any:
    if value is None:
        return None
    converted = FORMS[column.plain_type].from_json(value)
    return converted.removesuffix("Z") if column.salesforce_type == "time" else converted
