"""The day-0 copy of one entity, page by page: each page comes with the progress to store in the same commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column, arrow_schema
from sfcdc_assets.change_events.hashed_value import hashed_array, plain_arrow_type
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.bulk_pages import pages
from sfcdc_assets.salesforce.bulk_query import create_job, wait_for_job
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import (
    ID,
    IS_DELETED,
    MASTER_RECORD_ID,
    SYSTEM_MODSTAMP,
    selected_fields,
    snapshot_query,
    stamp_among,
)

_UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


def page_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of a page: the entity's columns (`Id` first), then what the stream does not carry.

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
    """Return the rows as `page_schema(columns)`, sorted by Id. A column that is not among `fields` (asked for) is null;
    values of hashed columns are hashed here.

    Raises `UnexpectedAnswer`, with `source` for the page, when a field that was asked for is not in it.
    """
    missing = [name for name in fields if name not in rows.column_names]
    if missing and rows.num_rows:
        raise UnexpectedAnswer(source, f"a page lacks {', '.join(missing)}")
    sources = [column.name for column in columns] + [
        IS_DELETED,
        stamp_among(fields) or SYSTEM_MODSTAMP,
        MASTER_RECORD_ID,
    ]
    times = {column.name for column in columns if column.salesforce_type == "time"}
    hashed = {column.name: column for column in columns if column.hash_key is not None}
    schema = page_schema(columns)
    arrays = []
    for name, field in zip(sources, schema, strict=True):
        if name == IS_DELETED and name not in fields:
            # Users cannot be deleted, so they have no such field.
            arrays.append(pa.chunked_array([pa.repeat(pa.scalar(value=False), rows.num_rows)]))
        elif name not in fields or name not in rows.column_names:
            arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        else:
            # 10:15:30.000Z here, without Z in our tables
            values = pc.utf8_rtrim(rows[name], characters="Z") if name in times else rows[name]
            arrays.append(hashed_array(hashed[field.name], values) if field.name in hashed else values)
    page = pa.table(arrays, schema=schema)
    return page if _is_sorted(page.column(ID)) else page.sort_by(ID)


def _is_sorted(ids: pa.ChunkedArray) -> bool:
    """Return whether the Ids are in order. Most pages' are: the org reads an object by them. To take the rows of a page
    in another order is a tenth of what reading it costs."""
    return pc.all(pc.less_equal(ids.slice(0, max(0, len(ids) - 1)), ids.slice(1)), min_count=0).as_py() is True


MOST_ROWS_PER_PAGE = 25_000
FEWEST_ROWS_PER_PAGE = 1_000
_CELLS_PER_PAGE = 1_500_000
_CELLS_OF_A_LARGE_TEXT = 50
"""What a large text weighs beside an ordinary cell of some ten bytes; the byte limit of a page catches the rest."""


def rows_per_page(columns: Sequence[Column]) -> int:
    """Return how many rows a page should have, so that pages of narrow and wide entities weigh about the same."""
    cells = sum(_CELLS_OF_A_LARGE_TEXT if column.large_text else 1 for column in columns)
    return min(MOST_ROWS_PER_PAGE, max(FEWEST_ROWS_PER_PAGE, _CELLS_PER_PAGE // max(cells, 1)))


def begun(
    session: OrgSession, entity: str, columns: Sequence[Column], *, channel: str, position: int, snapshot_number: int
) -> SnapshotProgress:
    """Return the progress of a snapshot that nothing was asked for yet but the fields of the object.

    `position` must have been noted before this call (guarantee 8). Raises `EntityNotReadable`.
    """
    return SnapshotProgress(
        snapshot_number=snapshot_number,
        entity=entity,
        channel=channel,
        position=position,
        job_id="",
        next_locator=None,
        pages_done=0,
        rows_done=0,
        complete=False,
        started_at_ms=clock.now_ms(),
        fields=selected_fields([column.name for column in columns], describe(session, entity).field_names),
    )


def start(session: OrgSession, progress: SnapshotProgress, where: str | None = None) -> SnapshotProgress:
    """Create the bulk job of a snapshot that has `begun`, and return the progress to store before the first page is
    read. With `where` only the records for which it holds are read.

    Raises `EntityNotReadable`, `QueryRefused`.
    """
    query = snapshot_query(progress.entity, progress.fields, where)
    job = create_job(session, progress.entity, query, include_deleted=True)
    return replace(progress, job_id=job.id, asked_at_ms=job.created_at_ms)


def read_pages(
    session: OrgSession,
    progress: SnapshotProgress,
    columns: Sequence[Column],
    *,
    max_records: int | None = None,
    sleep: Callable[[float], None] | None = None,
    on_unreadable: Callable[[Mapping[str, str]], object] | None = None,
) -> Iterator[tuple[pa.Table, SnapshotProgress]]:
    """Yield the pages after `progress`, each with the progress to store TOGETHER with it in one commit.

    A page has `page_schema(columns)` and is sorted by Id; a column that is not among `progress.fields` is null and the
    snapshot says nothing about it. Read again from the same progress, the rows are the same ones. An entity without
    records gives one empty, complete page; a complete progress gives none. Memory holds one page. `on_unreadable` is
    told, before the page that they are missing in, the Ids of records that hold a value which does not convert, and
    why; without it they raise `UnexpectedAnswer`. Raises `BulkJobGone` when the job is no longer there (start a new
    snapshot number with a new watermark), `BulkJobFailed`, and the session's errors.
    """
    if progress.complete:
        return
    job = wait_for_job(session, progress.job_id, sleep=sleep)
    progress = replace(progress, rows_expected=job.records)
    following = pages(
        session,
        job,
        csv_schema(columns),
        locator=progress.next_locator,
        max_records=max_records or rows_per_page(columns),
    )
    for page in following:
        source = f"bulk query job {job.id} of {job.entity}"
        if page.unreadable:
            if on_unreadable is None:
                raise UnexpectedAnswer(source, "; ".join(sorted(set(page.unreadable.values()))))
            on_unreadable(page.unreadable)
        table = _stamped(page_table(page.table, progress.fields, columns, source=source), progress.started_at_ms)
        progress = replace(
            progress,
            next_locator=page.next_locator,
            pages_done=progress.pages_done + 1,
            rows_done=progress.rows_done + page.number_of_records,
            complete=page.next_locator is None,
        )
        yield table, progress


def _stamped(page: pa.Table, started_at_ms: int) -> pa.Table:
    """Return the page where no row lacks a stamp: one that has none had its values when it was read, for all that is
    known."""
    place = page.schema.get_field_index("_system_modstamp")
    if not page.column(place).null_count:
        return page
    read_at = pa.scalar(started_at_ms * 1000, pa.int64()).cast(_UTC_MICROSECONDS)
    return page.set_column(place, page.schema.field(place), pc.fill_null(page.column(place), read_at))
