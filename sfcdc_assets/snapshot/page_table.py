"""The table of one snapshot page: the entity's columns with their types, and what the stream does not carry."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.change_events.hashed_value import hashed_array, plain_arrow_type
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.snapshot.soql import ID, IS_DELETED, MASTER_RECORD_ID, SYSTEM_MODSTAMP

_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


def page_schema(columns: Sequence[Column]) -> pa.Schema:
    """Schema of a page: the entity's columns (`Id` first), then what the stream does not carry.

    `_is_deleted` (in the recycle bin; never null), `_system_modstamp`, `_master_record_id` (the record that it was
    merged into).
    """
    schema = arrow_schema(columns)
    for name, type_ in (
        ("_is_deleted", pa.bool_()),
        ("_system_modstamp", _UTC_MICROSECONDS),
        ("_master_record_id", pa.string()),
    ):
        schema = schema.append(pa.field(name, type_))
    return schema


def csv_schema(columns: Sequence[Column]) -> pa.Schema:
    """Types of the CSV's columns: the entity's, unhashed, and those of the three that the stream does not carry."""
    types = {column.name: plain_arrow_type(column) for column in columns}
    types |= {
        ID: pa.string(),
        IS_DELETED: pa.bool_(),
        SYSTEM_MODSTAMP: _UTC_MICROSECONDS,
        MASTER_RECORD_ID: pa.string(),
    }
    return pa.schema(list(types.items()))


def page_table(rows: pa.Table, fields: Collection[str], columns: Sequence[Column], *, source: str) -> pa.Table:
    """The rows as `page_schema(columns)`, sorted by Id. A column that is not among `fields` (asked for) is null;
    values of hashed columns are hashed here.

    Raises `UnexpectedAnswer`, with `source` for the page, when a field that was asked for is not in it.
    """
    missing = [name for name in fields if name not in rows.column_names]
    if missing and rows.num_rows:
        raise UnexpectedAnswer(source, f"a page lacks {', '.join(missing)}")
    sources = [column.name for column in columns] + [IS_DELETED, SYSTEM_MODSTAMP, MASTER_RECORD_ID]
    times = {column.name for column in columns if column.salesforce_type == "time"}
    hashed = {column.name: column for column in columns if column.hash_key is not None}
    schema = page_schema(columns)
    arrays = []
    for name, field in zip(sources, schema, strict=True):
        if name == IS_DELETED and name not in fields:
            # Users cannot be deleted, so they have no such field.
            arrays.append(pa.chunked_array([pa.repeat(False, rows.num_rows)]))
        elif name not in fields or name not in rows.column_names:
            arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        else:
            # 10:15:30.000Z here, without Z in our tables
            values = pc.utf8_rtrim(rows[name], characters="Z") if name in times else rows[name]
            arrays.append(hashed_array(hashed[name], values) if name in hashed else values)
    return pa.table(arrays, schema=schema).sort_by(ID)
