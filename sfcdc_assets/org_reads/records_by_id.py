"""Read named records back from the org: at the smallest cost, with what became of those that are not there, and why
others cannot be read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.hashed_value import hashed_array, plain_arrow_type
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.recycle_bin import deleted_records
from sfcdc_assets.salesforce.retrieve import retrieve
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.timeline.read_rows import read_schema

MODIFIED = Column("SystemModstamp", ColumnType.TIMESTAMP, salesforce_type="datetime")
MERGED_INTO = Column("MasterRecordId", ColumnType.STRING, salesforce_type="reference")


@dataclass(frozen=True)
class ReadBack:
    """Rows (the columns, then `READ_COLUMNS`) of records; why others could not be read; and those that were not asked
    for to the end because too many requests had failed."""

    rows: pa.Table
    refused: Mapping[str, str]
    left: tuple[str, ...]


def read_back(
    session: OrgSession,
    entity: str,
    record_ids: Sequence[str],
    columns: Sequence[Column],
    described: frozenset[str],
    position: int,
    read_at: dt.datetime,
) -> ReadBack:
    """Return the records' rows now, with `position` as the watermark and `read_at` as the time.

    Living records come by composite retrieve, 2,000 a request. Those that it does not give are looked for in the
    recycle bin: found, they are deleted (or merged: MasterRecordId says into which); not found, they are gone for good,
    a row with the id alone. A record that the org does not give, or with a value that does not convert, keeps no other
    from being read. `described`: the fields the user may read. Raises the session's errors.
    """
    spelt = by_any_case(described)
    asked = {spelt[column.name.lower()]: column.name for column in columns if column.name.lower() in spelt}
    wanted = [name for name in asked if name != "Id"]
    extra = [name for name in ("IsDeleted", "SystemModstamp", "MasterRecordId") if name in described]
    fields = ["Id", *wanted, *extra]
    no_ids = {each: f"{each} has not the form of a Salesforce id" for each in record_ids if not is_salesforce_id(each)}
    living = retrieve(session, entity, [each for each in record_ids if each not in no_ids], fields)
    missing = [record_id for record_id, row in living.rows.items() if row is None]
    binned = deleted_records(session, entity, missing, fields)
    read = {**living.rows, **dict.fromkeys(missing), **binned.rows}
    skipped = {*binned.refused, *binned.left}
    found = {
        record_id: {asked.get(name, name): value for name, value in (row or {"Id": record_id}).items()}
        for record_id, row in read.items()
        if record_id not in skipped
    }
    refused = no_ids | {record_id: str(error) for record_id, error in (living.refused | binned.refused).items()}
    unread = sorted({column.name for column in columns} - set(asked.values()) - set(fields)) or None
    source = session.url_of(f"composite/sobjects/{entity}")
    spoiled = spoiled_records(source, found, columns)
    rows = [row for record_id, row in found.items() if record_id not in spoiled]
    table = _table(source, rows, columns, unread, position, read_at)
    return ReadBack(table, refused | spoiled, (*living.left, *binned.left))


def spoiled_records(source: str, found: Mapping[str, Mapping[str, Any]], columns: Sequence[Column]) -> dict[str, str]:
    """Return records with a value that does not convert, and what is wrong with it. One by one only where one of all
    is."""
    spoiled: dict[str, str] = {}
    for column in (*columns, MODIFIED, MERGED_INTO):
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
) -> pa.Table:
    schema = read_schema(columns)
    arrays = {column.name: rest_array(column, [row.get(column.name) for row in rows], source) for column in columns}
    values: dict[str, list[Any]] = {}
    modified = [_typed(MODIFIED, row.get(MODIFIED.name)) for row in rows]
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
