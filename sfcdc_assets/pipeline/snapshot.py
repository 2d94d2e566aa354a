"""Day 0: copy an entity by Bulk API 2.0 into `snapshot/<Entity>`, pinned to a position of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.columns import entity_columns
from sfcdc_assets.pipeline.landing import DRAIN_SECONDS, SETTLE_SECONDS, Lander
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.salesforce.errors import BulkJobGone
from sfcdc_assets.snapshot.pages import read_pages, start
from sfcdc_assets.snapshot.progress import SnapshotProgress

VISIBILITY_SECONDS = 10
"""REST shows a commit up to some seconds late (facts section 8: 1-3 s were measured), so events received in the last
so many seconds before the read do not count as covered by it: the pin lies before them and they are applied on top."""


class TipNotReached(SfcdcError):
    """The stream could not be read to its tip, so a snapshot has nothing to be pinned to."""

    def __init__(self, channel: str, position: int, seconds: float) -> None:
        self.channel = channel
        self.position = position
        super().__init__(
            f"{channel}: the stream's tip was not reached within {seconds:.0f} s (landed up to position {position}). "
            "The next attempt goes on from there; if it stays behind, more events arrive than are read."
        )


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


class Pin:
    """Positions of channels that reads begun now stand for (guarantee 8).

    A channel is landed to its tip once, when its position is first asked for; a later read may use it too, because the
    events after it apply on top of whatever the read saw.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        lander: Lander,
        *,
        settle: float = SETTLE_SECONDS,
        budget: float = DRAIN_SECONDS,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._warehouse = warehouse
        self._lander = lander
        self._settle = settle
        self._budget = budget
        self._clock_ms = clock_ms
        self._positions: dict[str, int] = {}

    def of(self, channel: str) -> int:
        """The channel's position. Raises `TipNotReached`."""
        if channel not in self._positions:
            report = self._lander.land(channel, settle=self._settle, budget=self._budget)
            if not report.at_tip:
                raise TipNotReached(channel, report.position, self._budget)
            received = self._clock_ms() - VISIBILITY_SECONDS * 1000
            recent = RawEvents.open(self._warehouse).first_position_received_after(channel, received)
            self._positions[channel] = report.position if recent is None else recent - 1
        return self._positions[channel]


def take_snapshot(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pin: Callable[[], int],
    *,
    on_page: Callable[[SnapshotProgress], None] = lambda _: None,
    clock_ms: Callable[[], int] = lambda: int(time.time() * 1000),
) -> SnapshotReport:
    """Copy the entity; goes on with an unfinished snapshot where it stopped.

    Memory does not grow with the object: one page is held at a time, and each is committed with the progress after it.
    `pin` gives the position that a read begun now stands for; `on_page` is told the progress. A job that the org has
    forgotten (results are kept for 7 days) is begun anew with a new pin. Raises `EntityNotReadable`, `BulkJobFailed`,
    and what `pin` raises.
    """
    try:
        return _take(warehouse, org, entity, channel, pin, on_page, clock_ms, resume=True)
    except BulkJobGone:
        return _take(warehouse, org, entity, channel, pin, on_page, clock_ms, resume=False)


def _take(
    warehouse: Warehouse,
    org: Org,
    entity: str,
    channel: str,
    pin: Callable[[], int],
    on_page: Callable[[SnapshotProgress], None],
    clock_ms: Callable[[], int],
    *,
    resume: bool,
) -> SnapshotReport:
    started, calls = time.monotonic(), org.session.calls
    present = Snapshots.open(warehouse, entity)
    progress = present.progress() if present else None
    resumed = resume and progress is not None and not progress.complete
    schemas = Schemas(warehouse)
    if not resumed:
        newest = org.newest_schema(entity, clock_ms())
        known = schemas.get(newest.schema_id)
        if known is None or known.describe_json != newest.describe_json:
            schemas.add(newest)
    columns = entity_columns(schemas, entity, None)
    snapshots = Snapshots.open_with(warehouse, entity, columns)
    if not resumed:
        position = pin()
        number = (progress.snapshot_number if progress else 0) + 1
        progress = start(org.session, entity, columns, channel=channel, position=position, snapshot_number=number)
        snapshots.begin(progress)
    assert progress is not None
    for page, after in read_pages(org.session, progress, columns):
        snapshots.add_page(page, after)
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
