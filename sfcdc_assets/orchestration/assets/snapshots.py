"""Snapshots as Dagster's runs take them: with progress in the log, and a warning where the user's sight is unknown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.change_of_channel import begin_on
from sfcdc_assets.lake.tables.object_shapes import ShapeKeeper
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.landing.payload_retention import seen_by_retention
from sfcdc_assets.landing.run_lander import Lander
from sfcdc_assets.orchestration.assets.copies import Copies, CopyPaused
from sfcdc_assets.orchestration.assets.reports import Log
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.snapshot_budget import SnapshotBudget
from sfcdc_assets.org_reads.carry_over import carry_over
from sfcdc_assets.org_reads.take_snapshot import SnapshotListener, SnapshotReport, ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of, side_by_side
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import PageStored, SnapshotBegun, notify
from sfcdc_assets.salesforce.errors import ApiLimitReached
from sfcdc_assets.salesforce.object_shape import ObjectShape
from sfcdc_assets.salesforce.view_all import Sight
from sfcdc_assets.settings.setting_values import as_set_here
from sfcdc_assets.snapshot.progress import SnapshotProgress

UNKNOWN = float("inf")


def smallest_first(entities: Iterable[str], records: Mapping[str, int], done: Mapping[str, int]) -> list[str]:
    """Return the entities by what is left of each: `records` (about so many it has, where that is known) less what an
    unfinished copy has of it (`done`). One of unknown size comes after the known ones, unless it was begun; entities
    that are equal keep their order."""

    def left(entity: str) -> float:
        return max(0, records[entity] - done.get(entity, 0)) if entity in records else UNKNOWN

    return sorted(entities, key=lambda entity: (left(entity), entity not in done))


PROGRESS_SECONDS = 5.0
LOOKED_AT_ONCE = 8
T = TypeVar("T")
_UNKNOWN_SIGHT = (
    "{entity}: the org does not say whether the user sees all of its records, so only the thresholds "
    "SFCDC_VANISH_PERCENT and SFCDC_VANISH_ROWS protect its rows. Let the user read permission "
    "sets (View Setup and Configuration)."
)


class SnapshotTaker:
    """Takes snapshots of entities of one run, in several threads: a channel is landed once for the watermarks of all of
    them. Closed after its copies."""

    def __init__(self, run: OrgRunContext, landing: Lander) -> None:
        self.warehouse = run.warehouse
        self._shapes = ShapeKeeper(run.warehouse)
        self._watermarks = Watermarks(run, landing)
        self._lock = lock = threading.Lock()
        self._run = replace(run, spark=lambda: _alone(lock, run.spark))
        self.budget = SnapshotBudget(run.org, run.settings.snapshot_reserve_percent)
        self._begin: Callable[[], str | None] = self.budget.begins_a_job
        """Takes a job of the day; says why not, in a run that nobody waits for."""
        self._records: Mapping[str, int] = {}

    def close(self) -> None:
        """Keep what the objects that were copied look like."""
        self._shapes.close()

    def states(self, entities: Mapping[str, str]) -> list[EntityState]:
        """Return how far entities have come; payloads past their retention need a newer snapshot too."""
        states = entity_states(self.warehouse, entities)
        return seen_by_retention(self.warehouse, states, self._run.settings.payload_retention_days, clock.now_ms())

    def copies(self, states: Sequence[EntityState], seconds: float = 0.0) -> Copies:
        """Return copies of all of them, some at a time, begun in their order. With `seconds`, those of a run that
        nobody waits for: it begins and goes on with copies for so long, and as long as the org's allowances have room.

        The channels are landed for their watermarks before the first one begins, by this thread."""
        for channel in dict.fromkeys(state.channel for state in states):
            outcome_of(self._watermarks.of, channel)  # whoever needs it raises what is wrong with it
        if not seconds:
            return Copies(states, self.take, lambda: None)
        ends_at = clock.current().monotonic() + seconds

        def why_not() -> str | None:
            if clock.current().monotonic() >= ends_at:
                return "the time of this run is over"
            return self.budget.why_not_go_on()

        self._begin = self.budget.begin
        return Copies(states, self.take, why_not)

    def in_order(self, states: Sequence[EntityState]) -> dict[str, int | None]:
        """Entity -> about how many records it has, None where the org does not say it; the small ones first, and of
        those that were begun what is left counts. Costs a request for each hundred of them."""
        if len(states) < 2:
            return dict.fromkeys((state.entity for state in states), None)
        self._records = records = self._run.org.record_counts([state.entity for state in states])
        entities = [state.entity for state in states]
        begun = zip(entities, side_by_side(self._rows_of_unfinished, entities, LOOKED_AT_ONCE), strict=True)
        # Of a table that cannot be read its copy says what is wrong.
        done = {entity: rows for entity, rows in begun if isinstance(rows, int)}
        return {entity: records.get(entity) for entity in smallest_first(entities, records, done)}

    def _rows_of_unfinished(self, entity: str) -> int | None:
        taken = Snapshots.open(self.warehouse, entity)
        progress = taken.progress() if taken else None
        return progress.rows_done if progress is not None and not progress.complete else None

    def take(
        self, state: EntityState, log: Log, why_not_now: Callable[[], str | None] = lambda: None
    ) -> SnapshotReport:
        """Read the entity whole. Raises what the org refuses, and `CopyPaused`, when there is a reason to, between two
        pages, while the org prepares them, or where it takes no more requests."""
        first = 0

        def watermark(position: int) -> int:
            return _alone(self._lock, lambda: self._watermarks.of(state.channel, position))

        if state.channel_changed:
            first = begin_on(self.warehouse, state.entity, state.channel)
            carried = carry_over(self._run, ToCopy(state.entity, state.channel, first), watermark)
            if carried is not None:
                log.info(
                    f"{state.entity}: {carried.channel} feeds it from position {carried.position} on, and "
                    f"{carried.carried_from} did before; its table goes on"
                )
                return carried
            log.warning(f"{state.entity}: {state.channel} feeds it from now on, so it is read again")
        if reason := self._begin():
            raise CopyPaused(state.entity, 0, reason)
        notify(SnapshotBegun(state.entity))
        watched = _Watched(state.entity, log.info, why_not_now, self._shapes)

        try:
            wanted = ToCopy(state.entity, state.channel, first, expected_rows=self._records.get(state.entity))
            report = take_snapshot(self._run, wanted, watermark, watched)
        except ApiLimitReached as error:
            self.budget.ran_out(error)
            watched.pause_if_due()
            raise
        if report.sight is Sight.UNKNOWN:
            log.warning(as_set_here(_UNKNOWN_SIGHT.format(entity=state.entity)))
        log.info(_described(report))
        return report


def _alone(lock: threading.Lock, work: Callable[[], T]) -> T:
    """Do what one thread does at a time."""
    with lock:
        return work()


class _Watched(SnapshotListener):
    """Logs the progress of a long read, not of every page; observers hear of each. Pauses it when there is a reason.
    What the object looks like is kept."""

    def __init__(
        self,
        entity: str,
        tell: Callable[[str], object],
        why_not_now: Callable[[], str | None],
        shapes: ShapeKeeper,
    ) -> None:
        self._entity = entity
        self._tell = tell
        self._why_not_now = why_not_now
        self._shapes = shapes
        self._rows = 0
        self._next = time.monotonic() + PROGRESS_SECONDS

    def described(self, shape: ObjectShape) -> None:
        """Keep what the object looks like, with others'."""
        self._shapes.add(shape)

    def paged(self, progress: SnapshotProgress) -> None:
        """Report the page. Raises `CopyPaused`."""
        self._rows = progress.rows_done
        notify(PageStored(progress.entity, progress.rows_done, progress.rows_expected, progress.complete))
        if time.monotonic() >= self._next:
            done, expected = progress.rows_done, progress.rows_expected
            rows = f"{done} of {counted(expected, 'row')}" if expected else counted(done, "row")
            self._tell(f"{progress.entity}: {rows} read, {counted(progress.pages_done, 'page')}")
            self._next = time.monotonic() + PROGRESS_SECONDS
        if not progress.complete:
            self.pause_if_due()

    def waited(self) -> None:
        """End the wait for the org, if there is a reason. Raises `CopyPaused`."""
        self.pause_if_due()

    def pause_if_due(self) -> None:
        """Raise `CopyPaused` if there is a reason to."""
        if reason := self._why_not_now():
            raise CopyPaused(self._entity, self._rows, reason)


def _described(report: SnapshotReport) -> str:
    how = "went on with" if report.resumed else "read"
    return (
        f"{report.entity}: {how} snapshot {report.number}, {counted(report.rows, 'row')} in "
        f"{counted(report.pages, 'page')}, watermark at position {report.position} of {report.channel}, "
        f"{counted(report.calls, 'API request')}, {report.seconds:.1f} s"
    )
