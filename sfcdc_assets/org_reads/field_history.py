"""Reads of an object's field history, `AccountHistory` and its like: which object that is, what it holds, its rows.

Salesforce keeps the changes of tracked fields for 18 months, and through queryAll for 24 (Salesforce Help, "Field
History Tracking"). Values are of any type, and cannot be filtered by; rows can be, by the record that they are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.foreign_text import unicode_text
from sfcdc_assets.salesforce.bulk_pages import pages
from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB, BulkJob, create_job, wait_for_job
from sfcdc_assets.salesforce.describe import describe, objects
from sfcdc_assets.salesforce.errors import EntityNotReadable, QueryRefused
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.query import count, query_rows
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.snapshot.soql import IdWindow

ROWS_PER_PAGE = 2_000
"""Of a REST query at most."""
ROWS_BY_REST = 20_000
"""A field history of more rows is read by Bulk jobs."""
ROWS_PER_BULK_PAGE = 50_000
_NEEDED = frozenset({"Id", "Field", "OldValue", "NewValue", "CreatedDate"})
PARENT = "record_id"
ROWS: Final = pa.schema(
    [
        ("Id", pa.string()),
        (PARENT, pa.string()),
        ("Field", pa.string()),
        ("OldValue", pa.string()),
        ("NewValue", pa.string()),
        ("CreatedDate", pa.timestamp("us", "UTC")),
        ("CreatedById", pa.string()),
        ("DataType", pa.string()),
    ]
)
"""Rows of a field history, as texts whichever way they came; an empty value is null."""


class NoFieldHistory(SfcdcError):
    """The org has no field history of an entity, or none that the user may read. `asked`: the objects looked for."""

    def __init__(self, entity: str, asked: Sequence[str], refusal: str | None) -> None:
        self.entity = entity
        problem = f"{' and '.join(asked)} cannot be read" + (f" ({refusal})" if refusal else "")
        super().__init__(
            f"{entity}: there is no field history to read: {problem}. Switch on history tracking for {entity} in the "
            f"org's Setup (Object Manager, {entity}, Fields & Relationships, Set History Tracking); it holds changes "
            f"from then on. If it is on, give the user the permission to read {entity}."
        )


@dataclass(frozen=True)
class FieldHistory:
    """The object `name` that holds the changes of an entity's tracked fields; `parent`: its lookup to the record."""

    entity: str
    name: str
    parent: str
    fields: frozenset[str]


@dataclass(frozen=True)
class OfField:
    """How many rows are of a field, and when the oldest of them was written, UTC."""

    field: str
    rows: int
    since: datetime | None


def field_history_of(session: OrgSession, entity: str) -> FieldHistory:
    """Return the entity's field history. Costs two requests in most orgs. Raises `NoFieldHistory`.

    It is found by its name, or else by what the org's list of objects says goes with the entity; OpportunityHistory,
    which holds stages, has no values of fields and is none.
    """
    names = [f"{entity[:-3]}__History"] if entity.endswith("__c") else [f"{entity}FieldHistory", f"{entity}History"]
    listed = objects(session)
    there = {each.name for each in listed}
    companions = [each.name for each in listed if each.companion_of == entity and "History" in each.name]
    refusal = None
    for name in dict.fromkeys([*(each for each in names if each in there), *companions]):
        try:
            described = describe(session, name)
        except EntityNotReadable as refused:
            refusal = f"{refused.error_code}: {refused.message}"
            continue
        parent = _parent(described, entity)
        if parent is not None and described.field_names >= _NEEDED:
            return FieldHistory(entity, name, parent, described.field_names)
    raise NoFieldHistory(entity, names, refusal)


def _parent(described: ObjectDescription, entity: str) -> str | None:
    """Return the lookup to the record that a row is of."""
    found = [each.name for each in described.fields if entity in each.reference_to]
    return next((name for name in ("ParentId", f"{entity}Id") if name in found), next(iter(found), None))


def rows_of(session: OrgSession, history: FieldHistory) -> int | None:
    """Return how many rows there are, by one request; None where the org does not count so many."""
    try:
        return count(session, history.name, include_deleted=True)
    except QueryRefused:
        return None


def rows_by_field(session: OrgSession, history: FieldHistory) -> tuple[OfField, ...]:
    """Return the fields that have rows, those with the most first, by one request; none where the org does not group
    so many."""
    soql = f"SELECT Field, COUNT(Id) found, MIN(CreatedDate) oldest FROM {history.name} GROUP BY Field"
    try:
        found = list(query_rows(session, soql, include_deleted=True))
    except QueryRefused:
        return ()
    of = [OfField(str(row["Field"]), int(row["found"]), _moment(row["oldest"])) for row in found]
    return tuple(sorted(of, key=lambda each: (-each.rows, each.field)))


def requests_for(rows: int | None, windows: int) -> int:
    """Return about how many requests it takes to read so many rows; by Bulk, in so many windows."""
    if is_bulk(rows):
        return windows * CALLS_PER_JOB + (rows or 0) // ROWS_PER_BULK_PAGE
    return 1 + (rows or 0) // ROWS_PER_PAGE


def is_bulk(rows: int | None) -> bool:
    """Return whether so many rows are read by Bulk jobs."""
    return rows is None or rows > ROWS_BY_REST


def rows_within(session: OrgSession, history: FieldHistory, window: IdWindow, *, by_bulk: bool) -> pa.Table:
    """Return the rows of records in a window (`ROWS`), in no order, those of records in the recycle bin too.

    All are held: choose the window so that they fit. An object that Bulk does not read is read by REST. Raises
    `QueryRefused`, `BulkJobFailed` and the session's errors.
    """
    names = [name if name != PARENT else history.parent for name in ROWS.names]
    asked = [name for name in names if name in history.fields]
    where = window.condition_on(history.parent)
    soql = f"SELECT {', '.join(asked)} FROM {history.name}" + (f" WHERE {where}" if where else "")
    parts = [ROWS.empty_table()]
    job = _job(session, history, soql) if by_bulk else None
    if job is None:
        parts += _by_rest(session, history, soql)
    else:
        types = pa.schema([(name, of) for name, of in zip(names, ROWS.types, strict=True) if name in asked])
        following = pages(session, wait_for_job(session, job.id), types, max_records=ROWS_PER_BULK_PAGE)
        parts += [_table(page.table, history) for page in following]
    return pa.concat_tables(parts)


def _job(session: OrgSession, history: FieldHistory, soql: str) -> BulkJob | None:
    try:
        return create_job(session, history.name, soql)
    except EntityNotReadable:
        return None


def _table(page: pa.Table, history: FieldHistory) -> pa.Table:
    columns = page.rename_columns([PARENT if name == history.parent else name for name in page.column_names])
    arrays = [
        columns[field.name] if field.name in columns.column_names else pa.nulls(page.num_rows, field.type)
        for field in ROWS
    ]
    table = pa.table(arrays, schema=ROWS)
    return table.filter(pc.is_valid(table[PARENT]))


def _by_rest(session: OrgSession, history: FieldHistory, soql: str) -> Iterator[pa.Table]:
    some: list[dict[str, Any]] = []
    for row in query_rows(session, soql, include_deleted=True):
        if row.get(history.parent) is None:
            continue
        values = {name: _text(row.get(name)) for name in ROWS.names if name not in (PARENT, "CreatedDate")}
        some.append({**values, PARENT: row[history.parent], "CreatedDate": _moment(row["CreatedDate"])})
        if len(some) == ROWS_PER_PAGE:
            yield pa.Table.from_pylist(some, schema=ROWS)
            some = []
    yield pa.Table.from_pylist(some, schema=ROWS)


def _text(value: Any) -> str | None:
    """Return a value of REST's JSON as Bulk's CSV has it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return unicode_text(value) if isinstance(value, str) else repr(value)


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    return datetime.fromisoformat(str(value)).astimezone(UTC)
