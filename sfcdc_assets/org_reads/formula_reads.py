"""Read formula fields from the org: of named records, or by a Bulk job of all, page by page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.formulas.formula_columns import AS_OF, row_schema
from sfcdc_assets.salesforce.bisecting_read import BisectedRead
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.retrieve import retrieve
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.timeline.rest_rows import rest_array, spoiled_records


@dataclass(frozen=True)
class FormulaRead:
    """Rows of `formula_values`; records that the org does not show any more; why others could not be read, and those
    that were not asked for to the end because too many requests had failed."""

    rows: pa.Table
    gone: tuple[str, ...]
    refused: Mapping[str, str]
    left: tuple[str, ...]


def read_formulas(
    session: OrgSession,
    entity: str,
    record_ids: Sequence[str],
    parts: Sequence[Sequence[Column]],
    read_at: dt.datetime,
) -> FormulaRead:
    """Return the values of the columns (of `formula_columns`; in one part, or in several that have `Id` each) now,
    2,000 records a request for each part. A record of which a part is not read is not.

    `read_at`: a time before the first request. Raises `QueryRefused` for a formula that there is not any more, and the
    session's errors.
    """
    no_ids = {each: f"{each} has not the form of a Salesforce id" for each in record_ids if not is_salesforce_id(each)}
    asked = [each for each in record_ids if each not in no_ids]
    read = BisectedRead({each: {} for each in asked})
    for part in parts:
        _add(read, retrieve(session, entity, list(read.rows), [column.name for column in part]))
    columns = [parts[0][0], *(column for part in parts for column in part[1:])]
    found = {record_id: row for record_id, row in read.rows.items() if row is not None}
    source = session.url_of(f"composite/sobjects/{entity}")
    spoiled = spoiled_records(source, found, columns)
    rows = [{**row, ID_COLUMN.name: record_id} for record_id, row in found.items() if record_id not in spoiled]
    schema = row_schema(columns)
    arrays = {column.name: rest_array(column, [row.get(column.name) for row in rows], source) for column in columns}
    arrays[AS_OF] = pa.array([read_at] * len(rows), schema.field(AS_OF).type)
    refused = no_ids | {record_id: str(error) for record_id, error in read.refused.items()} | spoiled
    gone = tuple(record_id for record_id, row in read.rows.items() if row is None)
    return FormulaRead(pa.table({name: arrays[name] for name in schema.names}, schema=schema), gone, refused, read.left)


def _add(read: BisectedRead, more: BisectedRead) -> None:
    """Put what a further part says of the records to what was read of them."""
    rows = {record_id: (read.rows[record_id], row) for record_id, row in more.rows.items()}
    read.rows = {
        record_id: {**before, **row} if before is not None and row is not None else None
        for record_id, (before, row) in rows.items()
    }
    read.refused |= more.refused
    read.left += more.left


def rows_of_page(page: pa.Table, columns: Sequence[Column], read_at: dt.datetime) -> pa.Table:
    """Return a page of a Bulk job as rows of the table."""
    schema = row_schema(columns)
    arrays = []
    for column in columns:
        found = page[column.name] if column.name in page.column_names else pa.nulls(len(page))
        # 10:15:30.000Z here, without Z in our tables
        arrays.append(pc.utf8_rtrim(found, characters="Z") if column.salesforce_type == "time" else found)
    arrays.append(pa.array([read_at] * len(page), schema.field(AS_OF).type))
    return pa.table(arrays, names=schema.names).cast(schema)
