"""Day 0: copy an entity by Bulk API 2.0 into `snapshot/<Entity>`, pinned to a position of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.columns import entity_columns
from sfcdc_assets.pipeline.org import Org
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
    at_least: int = 0,
    on_page: Callable[[SnapshotProgress], None] = lambda _: None,
    clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> SnapshotReport:
    """Copy the entity; goes on with an unfinished snapshot where it stopped.

    Memory does not grow with the object: one page is held at a time, and each is committed with the progress after it.
    `pin` gives the position that a read begun now stands for, which must be `at_least` so far along (an unfinished
    snapshot pinned earlier is given up); `on_page` is told the progress. A job that the org has
    forgotten (results are kept for 7 days) is begun anew with a new pin. Raises `EntityNotReadable`, `BulkJobFailed`,
    and what `pin` raises.
    """
    try:
        return _take(warehouse, org, entity, channel, pin, at_least, on_page, clock_ms, resume=True)
    except BulkJobGone:
        return _take(warehouse, org, entity, channel, pin, at_least, on_page, clock_ms, resume=False)


def _take(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pin: Callable[[int], int],
    at_least: int,
    on_page: Callable[[SnapshotProgress], None],
    clock_ms: Callable[[], int],
    *,
    resume: bool,
) -> SnapshotReport:
    started, calls = time.monotonic(), org.session.calls
    present = Snapshots.open(warehouse, entity)
    progress = present.progress() if present else None
    resumed = resume and progress is not None and not progress.complete and progress.position >= at_least
    schemas = Schemas(warehouse)
    if not resumed:
        newest = org.newest_schema(entity, clock_ms())
        known = schemas.get(newest.schema_id)
        if known is None or known.describe_json != newest.describe_json:
            schemas.add(newest)
    columns = entity_columns(schemas, entity, None)
    snapshots = Snapshots.open_with(warehouse, entity, columns)
    if not resumed:
        position = pin(at_least)
        number = (progress.snapshot_number if progress else 0) + 1
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
    for page, after in read_pages(org.session, progress, columns):
        snapshots.add_page(page, after, clock_ms())
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
