"""The day-0 copy of one entity, page by page: each page comes with the progress to store in the same commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.salesforce.bulk_pages import pages
from sfcdc_assets.salesforce.bulk_query import create_job, wait_for_job
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.snapshot.page_table import csv_schema, page_table
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow, selected_fields, snapshot_query

MOST_ROWS_PER_PAGE = 25_000
FEWEST_ROWS_PER_PAGE = 1_000
_CELLS_PER_PAGE = 1_500_000
_CELLS_OF_A_LARGE_TEXT = 50
"""What a large text weighs beside an ordinary cell of some ten bytes; the byte limit of a page catches the rest."""


def rows_per_page(columns: Sequence[Column]) -> int:
    """How many rows a page should have, so that pages of narrow and wide entities weigh about the same."""
    cells = sum(_CELLS_OF_A_LARGE_TEXT if column.large_text else 1 for column in columns)
    return min(MOST_ROWS_PER_PAGE, max(FEWEST_ROWS_PER_PAGE, _CELLS_PER_PAGE // max(cells, 1)))


def start(
    session: OrgSession,
    entity: str,
    columns: Sequence[Column],
    *,
    channel: str,
    position: int,
    snapshot_number: int,
    window: IdWindow | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> SnapshotProgress:
    """Begin a snapshot: create the bulk job, and return the progress to store before the first page is read.

    With `window` only the records in it are read, for an audit of a part.

    `position` must have been noted before this call (guarantee 8). Raises `EntityNotReadable`, `QueryRefused`.
    """
    started_at_ms = now_ms()
    fields = selected_fields([column.name for column in columns], describe(session, entity).field_names)
    job = create_job(session, entity, snapshot_query(entity, fields, window), include_deleted=True)
    return SnapshotProgress(
        snapshot_number=snapshot_number,
        entity=entity,
        channel=channel,
        position=position,
        job_id=job.id,
        next_locator=None,
        pages_done=0,
        rows_done=0,
        complete=False,
        started_at_ms=started_at_ms,
        fields=fields,
    )


def read_pages(
    session: OrgSession,
    progress: SnapshotProgress,
    columns: Sequence[Column],
    *,
    max_records: int | None = None,
    sleep: Callable[[float], None] | None = None,
    on_unreadable: Callable[[Mapping[str, str]], object] | None = None,
) -> Iterator[tuple[pa.Table, SnapshotProgress]]:
    """The pages after `progress`, each with the progress to store TOGETHER with it in one commit.

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
        table = page_table(page.table, progress.fields, columns, source=source)
        progress = replace(
            progress,
            next_locator=page.next_locator,
            pages_done=progress.pages_done + 1,
            rows_done=progress.rows_done + page.number_of_records,
            complete=page.next_locator is None,
        )
        yield table, progress
