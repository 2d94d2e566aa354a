"""Day 0: copy an entity by Bulk API 2.0 into `snapshot/<Entity>`, pinned to a position of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from sfcdc_assets import clock
from sfcdc_assets.config import VISIBILITY_SECONDS
from sfcdc_assets.lake.gap_reconciliation import Ledger, entity_doubts
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import Snapshots, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.columns import check_privacy
from sfcdc_assets.pipeline.layout import follow_layout
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.stale_reads import longest_lag_ms, stale_records, unreadable_records
from sfcdc_assets.salesforce.errors import BulkJobGone
from sfcdc_assets.snapshot.pages import read_pages, start
from sfcdc_assets.snapshot.progress import SnapshotProgress


@dataclass(frozen=True)
class SnapshotReport:
    """A snapshot that is complete: its number, pin, rows, pages and the API requests it took."""

    entity: str
    channel: str
    number: int
    position: int
    rows: int
    pages: int
    calls: int
    resumed: bool
    seconds: float


def take_snapshot(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pin: Callable[[int], int],
    *,
    spark: Callable[[], SparkSession],
    at_least: int = 0,
    numbered_after: tuple[int, int] = (0, 0),
    on_page: Callable[[SnapshotProgress], None] = lambda _: None,
    clock_ms: Callable[[], int] = clock.now_ms,
    lag_ms: int = longest_lag_ms(VISIBILITY_SECONDS),
) -> SnapshotReport:
    """Copy the entity; goes on with an unfinished snapshot where it stopped.

    Memory does not grow with the object: one page is held at a time, and each is committed with the progress after it.
    Records that it shows as they were before events of the last `lag_ms`, or whose values do not convert, are put in
    doubt instead of being believed.
    `pin` gives the position that a read begun now stands for, which must be `at_least` so far along (an unfinished
    snapshot pinned earlier is given up). The snapshots and refetches of a new table are
    `numbered_after` these. `spark` is asked for where a field's type was changed and what was read before has to be
    written anew. `on_page` is told the progress. A job that the org has forgotten (results are kept for 7 days) is
    begun anew with a new pin. Raises `EntityNotReadable`, `BulkJobFailed`,
    `PrivacyChanged`, and what `pin` raises.
    """
    take = partial(
        _take, warehouse, org, entity, channel, pin, spark, at_least, numbered_after, on_page, clock_ms, lag_ms
    )
    try:
        return take(resume=True)
    except BulkJobGone:
        return take(resume=False)


def _take(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pin: Callable[[int], int],
    spark: Callable[[], SparkSession],
    at_least: int,
    numbered_after: tuple[int, int],
    on_page: Callable[[SnapshotProgress], None],
    clock_ms: Callable[[], int],
    lag_ms: int,
    *,
    resume: bool,
) -> SnapshotReport:
    started, calls = time.monotonic(), org.session.calls
    schemas = Schemas(warehouse)
    newest = org.newest_schema(entity, clock_ms())
    known = schemas.of_entity(entity)
    if not known or (known[-1].schema_id, known[-1].describe_json) != (newest.schema_id, newest.describe_json):
        schemas.add(newest)
    schemas.note_described(entity, clock_ms())
    present = Snapshots.open(warehouse, entity)
    if present:
        check_privacy(schemas, entity, {name_of(entity): present.table.schema}, org.privacy)
    columns = follow_layout(warehouse, spark, org.privacy, entity, channel, clock_ms)
    ledger = Ledger.open(warehouse, entity)
    snapshots = Snapshots.open_or_create(warehouse, entity, columns)
    if snapshots.last_number() < numbered_after[0]:
        snapshots.go_on_from(*numbered_after)
    complete = snapshots.complete()
    doubts = ledger.open_doubts() if ledger else []
    held = entity_doubts(doubts, channel, complete.position if complete else 0)
    at_least = max([at_least, *held])
    progress = snapshots.progress()
    unfinished = progress is not None and not progress.complete and progress.channel == channel
    resumed = resume and unfinished and progress is not None and progress.position >= at_least
    if not resumed:
        if held:
            # What was changed beside the stream comes after all that has landed, and is not to be undone by it.
            at_least = max(at_least, RawEvents.open(warehouse).place(channel).position)
        position = pin(at_least)
        number = snapshots.last_number() + 1
        progress = start(
            org.session,
            entity,
            columns,
            channel=channel,
            position=position,
            snapshot_number=number,
            now_ms=clock_ms,
        )
        snapshots.begin(progress)
    assert progress is not None
    unreadable: dict[str, str] = {}
    for page, after in read_pages(org.session, progress, columns, on_unreadable=unreadable.update):
        distrusted = unreadable_records(after, unreadable)
        unreadable.clear()
        if after.complete:
            distrusted += stale_records(RawEvents.open(warehouse), snapshots, after, page, lag_ms)
        snapshots.add_page(page, after, clock_ms(), distrusted)
        on_page(after)
        progress = after
    return SnapshotReport(
        entity=entity,
        channel=channel,
        number=progress.snapshot_number,
        position=progress.position,
        rows=progress.rows_done,
        pages=progress.pages_done,
        calls=org.session.calls - calls,
        resumed=resumed,
        seconds=time.monotonic() - started,
    )
