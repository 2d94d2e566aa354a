"""Records as the org's REST side gives them, made rows with the types of the entity's columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.change_events.hashed_value import hashed_array, plain_arrow_type
from sfcdc_assets.change_events.value_text import bulk_number_text
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.timeline.read_rows import read_schema

MODIFIED = Column("SystemModstamp", ColumnType.TIMESTAMP, salesforce_type="datetime")
MERGED_INTO = Column("MasterRecordId", ColumnType.STRING, salesforce_type="reference")

_ANY = "anyType"
"""A value of any type is a text in its column: a number as Bulk API 2.0 writes it, which says no more than the text."""
_TIME = "time"
"""A time of day is one without the Z that REST writes."""


def typed_rows(
    source: str,
    found: Mapping[str, Mapping[str, Any] | None],
    columns: Sequence[Column],
    unread: Sequence[str] | None,
    position: int,
    read_at: dt.datetime,
    stamp: str = MODIFIED.name,
) -> tuple[pa.Table, dict[str, str]]:
    """Return records (by Id, as REST gives them under the columns' names; None: the org has it no more) as rows: the
    columns, then `READ_COLUMNS`; and what is wrong with those that have a value which does not convert, which are left
    out. `stamp`: the field that says when a record was changed; one without it had its values when it was read, for all
    that is known."""
    modified = replace(MODIFIED, name=stamp)
    try:
        return _table(source, found, columns, modified, unread, position, read_at), {}
    except UnexpectedAnswer:
        shown = {record_id: row for record_id, row in found.items() if row is not None}
        spoiled = spoiled_records(source, shown, (*columns, modified, MERGED_INTO))
    sound = {record_id: row for record_id, row in found.items() if record_id not in spoiled}
    return _table(source, sound, columns, modified, unread, position, read_at), spoiled


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
    found: Mapping[str, Mapping[str, Any] | None],
    columns: Sequence[Column],
    modified: Column,
    unread: Sequence[str] | None,
    position: int,
    read_at: dt.datetime,
) -> pa.Table:
    """Return the rows; raise `UnexpectedAnswer` for a value that does not convert."""
    schema = read_schema(columns)
    rows = [{ID_COLUMN.name: record_id} if row is None else row for record_id, row in found.items()]
    # A record that is gone has no time at which it was changed.
    is_gone = [row is None for row in found.values()]

    def array(column: Column) -> pa.Array:
        return rest_array(column, [row.get(column.name) for row in rows], source)

    arrays = {column.name: array(column) for column in columns}
    stamps = array(modified)
    changed = pc.fill_null(stamps, pa.scalar(read_at, stamps.type))
    values: dict[str, Any] = {}
    values["_is_deleted"] = [gone or bool(row.get("IsDeleted")) for gone, row in zip(is_gone, rows, strict=True)]
    values["_system_modstamp"] = pc.if_else(pa.array(is_gone, pa.bool_()), None, changed)
    values["_master_record_id"] = array(MERGED_INTO)
    values["_position"] = [position] * len(rows)
    values["_read_at"] = [read_at] * len(rows)
    values["_unread"] = [unread] * len(rows)
    by_name = arrays | {name: pa.array(each, schema.field(name).type) for name, each in values.items()}
    return pa.table({name: by_name[name] for name in schema.names}, schema=schema)


def rest_array(column: Column, values: Sequence[Any], source: str) -> pa.Array:
    """REST values (docs/salesforce-streams.md, "SOQL queries") as the column has them; hashed ones are hashed here.

    Raises `UnexpectedAnswer` for a value that does not fit; it is the org's data and not quoted.
    """
    try:
        plain = _plain(column, values)
    except (ValueError, TypeError, OverflowError):
        raise UnexpectedAnswer(source, f"{column.name} holds a value that is no {column.plain_type}") from None
    return plain if column.hash_key is None else hashed_array(column, plain)


def _plain(column: Column, values: Sequence[Any]) -> pa.Array:
    kind = plain_arrow_type(column)
    if column.plain_type is ColumnType.STRING and column.salesforce_type not in (_ANY, _TIME):
        with suppress(ValueError, TypeError):  # one of them is no text, or none that UTF-8 can hold
            return pa.array(values, kind)
    return pa.array([_typed(column, value) for value in values], kind)


def _typed(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.salesforce_type == _ANY and isinstance(value, int | float) and not isinstance(value, bool):
        return bulk_number_text(value)
    converted = FORMS[column.plain_type].from_json(value)
    return converted.removesuffix("Z") if column.salesforce_type == _TIME else converted
