"""Day 0: copy an entity by Bulk API 2.0 into `snapshot/<Entity>`, taken at a watermark of the stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.entities.membership import note_suspect_entity
from sfcdc_assets.entities.refused_reads import end_refusal, refuse_entity, refuse_now
from sfcdc_assets.lake.store.left_out_objects import note_refused
from sfcdc_assets.lake.tables.gap_reconciliation import open_suspects
from sfcdc_assets.lake.tables.open_suspect import OpenSuspect, entity_suspects
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots, name_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.described_objects import note_described
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_connection.whole_object import read_pages, start
from sfcdc_assets.org_reads.stale_reads import longest_lag_ms, stale_records, unreadable_records
from sfcdc_assets.org_reads.vanished import RowsVanished, vanished_rows, why
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.bulk_query import is_lost
from sfcdc_assets.salesforce.describe import describe_whole
from sfcdc_assets.salesforce.errors import BulkJobGone, EntityNotReadable
from sfcdc_assets.salesforce.object_shape import ObjectShape
from sfcdc_assets.salesforce.view_all import Sight, ViewAllMissing
from sfcdc_assets.schema_evolution.layout import follow_layout
from sfcdc_assets.schema_evolution.table_columns import check_privacy
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.suspect import Reason
from sfcdc_assets.timeline.suspect_behaviour import CHANGED_COLUMNS

NO_JOB = "none"
"""`job_id` of a snapshot that was not read from the org as a whole; it is not gone on with. (It is empty where queries
read it.)"""


@dataclass(frozen=True)
class SnapshotReport:
    """A snapshot that is complete: its number, watermark, rows, pages and the API requests it took; `sight`: whether
    the org says that the user is shown all records. `carried_from`: the channel that fed it before; the table was taken
    along, and nothing was copied."""

    entity: str
    channel: str
    number: int
    position: int
    rows: int
    pages: int
    calls: int
    resumed: bool
    seconds: float
    sight: Sight = Sight.ALL
    carried_from: str | None = None


@dataclass(frozen=True)
class ToCopy:
    """An entity, to be read whole on the channel that feeds it.

    `at_least`: a position that its watermark must have reached; an unfinished snapshot with an earlier one is given up.
    `numbered_after`: the last snapshot and the last read-back that a new table's numbers go on from. `expected_rows`:
    about how many records it has, where that is known.
    """

    entity: str
    channel: str
    at_least: int = 0
    numbered_after: tuple[int, int] = (0, 0)
    expected_rows: int | None = None


class ObjectLeftOut(SfcdcError):
    """A pattern of SFCDC_POLL matches an object that the org does not let be read as a table; it is not polled."""

    def __init__(self, refusal: NotPollable) -> None:
        self.entity, self.refusal = refusal.entity, refusal
        super().__init__(f"{self.entity} is left out of what SFCDC_POLL's patterns take: {refusal.reason}.")


class SnapshotListener:
    """Who hears of a snapshot under way, between its steps. What it raises ends the reading, and the next one goes on
    from there. The default does nothing."""

    def described(self, shape: ObjectShape) -> None:
        """Note what the object looks like, before it is read."""

    def paged(self, progress: SnapshotProgress) -> None:
        """Note that a page is stored."""

    def waited(self) -> None:
        """Note that the org was given time to prepare the rows."""


def take_snapshot(
    run: OrgRunContext, wanted: ToCopy, watermark: Callable[[int], int], listener: SnapshotListener | None = None
) -> SnapshotReport:
    """Copy the entity; goes on with an unfinished snapshot where it stopped.

    Memory does not grow with the object: one page is held at a time, and each is committed with the progress after it.
    Records that it shows as they were before events of the last minutes (`longest_lag_ms`), or whose values do not
    convert, are made suspect instead of being believed. `watermark` gives the position that a read begun now stands
    for, which must be at least so far along as it is given. An entry about the entity that is newer than an unfinished
    snapshot does not stop it: it counts at its own watermark and leaves that entry to the next one, or entries that
    come faster than a large object can be read would starve it. Only where columns have changed it is begun again. The
    run's Spark is asked for where a field's type was changed and what was read before has to be rewritten. A job that
    the org has forgotten (results are kept for 7 days), or that has failed or was aborted since an unfinished snapshot
    began with it, is begun again with a new watermark.

    Raises `ViewAllMissing` before anything is read, `EntityNotReadable`, and `RowsVanished` where the snapshot is not
    believed (the reconciliation ledger has all three then, and they pause the next attempt), `BulkJobFailed`,
    `PrivacyChanged`, and what `watermark` raises. Of a polled object `NotPollable` where it is named, and
    `ObjectLeftOut` where a pattern has taken it; nothing is written then, and the next choice leaves it out.
    """
    warehouse, entity, channel = run.warehouse, wanted.entity, wanted.channel
    was_refused = _rights_were_refused(warehouse, entity)
    sight = _sight(run, wanted)
    take = partial(_take, run, wanted, watermark, listener or SnapshotListener(), sight)
    try:
        try:
            report = take(resume=True)
        except BulkJobGone:
            report = take(resume=False)
    except (NotPollable, EntityNotReadable) as refused:
        if isinstance(refused, NotPollable) and not run.org.poll.names(entity):
            note_refused(warehouse, entity, refused.reason, clock.now_ms())
            raise ObjectLeftOut(refused) from refused
        refuse_now(warehouse, entity, Reason.NOT_READABLE, channel, str(refused))
        raise
    if was_refused and not is_polled(channel):  # polls go on where they were
        why = "its rights were given back; until the stream follows that, its changes may raise no event"
        note_suspect_entity(warehouse, entity, channel, Reason.MISSED_EVENTS, why, clock.now_ms())
    end_refusal(warehouse, entity, Reason.VIEW_ALL_MISSING, report.position, clock.now_ms())
    end_refusal(warehouse, entity, Reason.NOT_READABLE, report.position, clock.now_ms())
    return report


def _rights_were_refused(warehouse: Warehouse, entity: str) -> bool:
    """Return whether the last attempt found rights missing that events come by as well."""
    suspects = open_suspects(warehouse, entity, of_the_entity=True)
    return any(suspect.reason in (Reason.NOT_READABLE, Reason.VIEW_ALL_MISSING) for suspect in suspects)


def _take(
    run: OrgRunContext,
    wanted: ToCopy,
    watermark: Callable[[int], int],
    listener: SnapshotListener,
    sight: Sight,
    *,
    resume: bool,
) -> SnapshotReport:
    session = run.org.session
    started, calls = time.monotonic(), session.calls_of_this_thread
    begun = _begin(run, wanted, watermark, listener, resume=resume)
    progress = _store_pages(run, wanted.entity, wanted.channel, begun, listener)
    return SnapshotReport(
        entity=wanted.entity,
        channel=wanted.channel,
        number=progress.snapshot_number,
        position=progress.position,
        rows=progress.rows_done,
        pages=progress.pages_done,
        calls=session.calls_of_this_thread - calls,
        resumed=begun.resumed,
        seconds=time.monotonic() - started,
        sight=sight,
    )


@dataclass(frozen=True)
class _Begun:
    """A snapshot whose pages are to be read. `complete_position`: where the last whole one stands, 0 before there is
    one."""

    snapshots: Snapshots
    progress: SnapshotProgress
    columns: tuple[Column, ...]
    complete_position: int
    resumed: bool


def _begin(
    run: OrgRunContext,
    wanted: ToCopy,
    watermark: Callable[[int], int],
    listener: SnapshotListener,
    *,
    resume: bool,
) -> _Begun:
    """Go on with an unfinished snapshot, or begin one: its job, its number and its watermark are stored then."""
    warehouse, org, entity, channel, at_least = run.warehouse, run.org, wanted.entity, wanted.channel, wanted.at_least
    schemas = Schemas(warehouse)
    _describe_now(run, schemas, entity, channel, listener)
    present = Snapshots.open(warehouse, entity)
    if present:
        check_privacy(schemas, entity, {name_of(entity): present.table.schema}, run.privacy)
    columns = follow_layout(run, schemas, present, None, entity, channel)
    complete = present.complete() if present else None
    complete_position = complete.position if complete else 0
    suspects = open_suspects(warehouse, entity)
    unfinished = present.progress() if present and resume else None
    if (
        unfinished is not None
        and _goes_on(unfinished, channel, at_least, suspects)
        and unfinished.job_id != NO_JOB
        and not (unfinished.job_id and is_lost(org.session, unfinished.job_id))
    ):
        progress = unfinished
    else:
        if blocked := entity_suspects(suspects, channel, complete_position):
            # What was changed beside the stream comes after all that has landed, and is not to be undone by it.
            at_least = max(at_least, *blocked, RawEvents.open(warehouse).last_position(channel))
        position = watermark(at_least)
        progress = start(
            org.session,
            entity,
            columns,
            channel=channel,
            position=position,
            snapshot_number=max(present.last_number() if present else 0, wanted.numbered_after[0]) + 1,
            where=org.condition_of(entity, channel),
            expected_rows=wanted.expected_rows,
        )
    resumed = progress is unfinished
    snapshots = present or Snapshots.open_or_create(warehouse, entity, columns)
    if snapshots.last_number() < wanted.numbered_after[0]:
        snapshots.go_on_from(*wanted.numbered_after)
    if not resumed:
        snapshots.begin(progress)
    return _Begun(snapshots, progress, columns, complete_position, resumed)


def _store_pages(
    run: OrgRunContext, entity: str, channel: str, begun: _Begun, listener: SnapshotListener
) -> SnapshotProgress:
    """Read the pages that are left, and store each with the progress after it. Raises `RowsVanished`."""
    warehouse, org, progress = run.warehouse, run.org, begun.progress

    def pause(seconds: float) -> None:
        org.session.sleep(seconds)
        listener.waited()

    unreadable: dict[str, str] = {}
    vanished, lag_ms = None, longest_lag_ms(run.settings.visibility_seconds)
    for page, after in read_pages(org.session, progress, begun.columns, sleep=pause, on_unreadable=unreadable.update):
        untrusted = unreadable_records(after, unreadable)
        unreadable.clear()
        if after.complete:
            accepted_at = OrganizationLog(warehouse).accepted_at(channel)
            untrusted += stale_records(warehouse, begun.snapshots, after, page, begun.columns, lag_ms, accepted_at)
            suspected = {each.record_id for each in untrusted}
            if accepted_at <= begun.complete_position:
                limits = org.vanish_limits_of(entity)
                vanished = vanished_rows(warehouse, begun.snapshots, after, page, suspected, limits)
        begun.snapshots.add_page(page, after, clock.now_ms(), untrusted, believed=vanished is None)
        listener.paged(after)
        progress = after
        if vanished is not None:
            description = why(after.snapshot_number, vanished)
            refuse_entity(warehouse, entity, Reason.VANISHED, channel, after.position, description, clock.now_ms())
            raise RowsVanished(entity, after.snapshot_number, vanished)
    return progress


def _describe_now(run: OrgRunContext, schemas: Schemas, entity: str, channel: str, listener: SnapshotListener) -> None:
    """Note what the object is now. Raises `NotPollable` before anything is written."""
    described = describe_whole(run.org.session, entity)
    if is_polled(channel):
        readability(described.object)
    note_described(run.org, schemas, entity, described, polled=is_polled(channel))
    listener.described(described.shape)


def _goes_on(progress: SnapshotProgress, channel: str, at_least: int, suspects: Sequence[OpenSuspect]) -> bool:
    """Return whether a snapshot is to be finished: its positions are the channel's, and its columns still the
    table's."""
    changed = [suspect for suspect in suspects if suspect.reason in CHANGED_COLUMNS]
    first = max([at_least, *entity_suspects(changed, channel, progress.position)])
    return not progress.complete and progress.channel == channel and progress.position >= first


def _sight(run: OrgRunContext, wanted: ToCopy) -> Sight:
    """Return what the user is shown; a refusal is noted. Raises `ViewAllMissing`."""
    try:
        return run.org.view_all.check(wanted.entity, "a snapshot")
    except ViewAllMissing as missing:
        refuse_now(run.warehouse, wanted.entity, Reason.VIEW_ALL_MISSING, wanted.channel, str(missing))
        raise
