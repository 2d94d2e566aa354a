"""An entity that gets another channel takes its table along: what the table has, with what changed since it was last
proven, stands as a snapshot at a watermark of the new channel. No copy is made.

What is proven: up to the last event that is applied, or the last poll whose rows are, all changes are in the rows. What
the org has stamped since then, with the time before it of which changes may become visible late, is asked for by REST;
records that it has deleted for good are found by counting. So it does not matter what happened between the two
channels, and from the watermark on the new one tells of every change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.store.poll_notes import PollNote, note_polls
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import open_suspects
from sfcdc_assets.lake.tables.object_shapes import keep_shapes
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.org_connection.described_objects import note_described
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.carried_changes import CarriedChanges, carried_changes, proven_rows
from sfcdc_assets.org_reads.take_snapshot import NO_JOB, SnapshotReport, ToCopy
from sfcdc_assets.polls.cursor import Cursor
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.describe import describe_whole
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.view_all import Sight
from sfcdc_assets.schema_evolution.layout import follow_layout
from sfcdc_assets.schema_evolution.table_columns import check_privacy
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.pages import page_schema, rows_per_page
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow


def carry_over(run: OrgRunContext, wanted: ToCopy, watermark: Callable[[int], int]) -> SnapshotReport | None:
    """Make the entity's table a snapshot on the channel that feeds it from now on; None where it has to be copied:
    nothing proves what the table has, too much has changed since, fields were not read until now or have another type,
    the user is not shown all records any more, or those of a condition alone are polled from now on.

    Raises `PrivacyChanged`, what `watermark` raises, and what the org refuses.
    """
    warehouse, entity, channel = run.warehouse, wanted.entity, wanted.channel
    table, taken = CurrentState.open(warehouse, entity), Snapshots.open(warehouse, entity)
    if is_polled(channel) and not (taken is not None and taken.begun_on(channel)):
        _note_open_transactions(run, entity)
    if table is None or taken is None or not _can_be_carried(run, entity, channel, taken):
        return None
    before = taken.channel()
    if before is None or before == channel or (proven := proven_rows(warehouse, entity, before, table, taken)) is None:
        return None
    started, calls = time.monotonic(), run.org.session.calls_of_this_thread
    described = describe_whole(run.org.session, entity)
    schemas = Schemas(warehouse)
    note_described(run.org, schemas, entity, described, polled=is_polled(channel))
    keep_shapes(warehouse, [described.shape], clock.now_ms())
    check_privacy(schemas, entity, {table.table.name: table.schema, taken.table.name: taken.table.schema}, run.privacy)
    columns = follow_layout(run, schemas, taken, None, entity, channel)
    if open_suspects(warehouse, entity, of_the_entity=True):  # columns are new, or were not read, or have another type
        return None
    if is_polled(before) and _changes_without_a_stamp(described.object):  # what polls compare later is compared no more
        return None
    started_at_ms, position = clock.now_ms(), watermark(wanted.at_least)
    known = carried_changes(run, entity, table, columns, described.object, proven, position)
    if known is None:
        return None
    begun = SnapshotProgress(
        snapshot_number=taken.last_number() + 1,
        entity=entity,
        channel=channel,
        position=position,
        job_id=NO_JOB,
        next_locator=None,
        pages_done=0,
        rows_done=0,
        complete=False,
        started_at_ms=started_at_ms,
        fields=tuple(column.name for column in columns),
        asked_at_ms=Cursor(known.asked_at).stamp_ms if known.asked_at else None,
    )
    progress = _write(taken, table, columns, known, begun)
    if not is_polled(channel):
        note_polls(warehouse, {entity: PollNote()})
    return SnapshotReport(
        entity=entity,
        channel=channel,
        number=progress.snapshot_number,
        position=position,
        rows=progress.rows_done,
        pages=progress.pages_done,
        calls=run.org.session.calls_of_this_thread - calls,
        resumed=False,
        seconds=time.monotonic() - started,
        carried_from=before,
    )


def _note_open_transactions(run: OrgRunContext, entity: str) -> None:
    """Note which transactions are open before the object is read for its first poll, which reads what they changed when
    they have ended. What was noted of its polls before is past."""
    covered_ms = CoveredTime(run.org).ask([entity])
    note_polls(run.warehouse, {entity: PollNote(covered_ms=covered_ms, covered_asked_ms=clock.now_ms())})


def _changes_without_a_stamp(description: ObjectDescription) -> bool:
    try:
        return readability(description).is_compared
    except NotPollable:
        return True


def _can_be_carried(run: OrgRunContext, entity: str, channel: str, taken: Snapshots) -> bool:
    """Return whether nothing is open about the entity as a whole, no copy of it is under way, and who counts the org's
    records sees those that belong into the table."""
    if run.org.condition_of(entity, channel) is not None or run.org.view_all.of(entity) is Sight.SHARED:
        return False
    progress = taken.progress()
    under_way = progress is not None and not progress.complete and progress.job_id != NO_JOB
    is_suspect = bool(open_suspects(run.warehouse, entity, of_the_entity=True))
    return not (is_suspect or under_way or taken.refused() is not None)


def _write(
    taken: Snapshots,
    table: CurrentState,
    columns: tuple[Column, ...],
    known: CarriedChanges,
    progress: SnapshotProgress,
) -> SnapshotProgress:
    """Commit the pages; with the last one the snapshot counts."""
    taken.begin(progress)
    windows = list(table.id_windows(rows_per_page(columns)))
    for place, window in enumerate(windows, start=1):
        page = _page(table, columns, known, window)
        rows = progress.rows_done + len(page)
        progress = replace(progress, pages_done=place, rows_done=rows, complete=place == len(windows))
        taken.add_page(page, progress, clock.now_ms())
    return progress


def _page(table: CurrentState, columns: tuple[Column, ...], known: CarriedChanges, window: IdWindow) -> pa.Table:
    """Return the rows of a window of Ids: those of the table, and in their places what changed since."""
    schema, names = page_schema(columns), [column.name for column in columns]
    present = [name for name in names if name in table.schema.names]
    # Deleted records too: a rebuild begins with what this has.
    within = f"_change_type is not null{f' and {window.condition}' if window.condition else ''}"
    beside = ["_is_deleted", "_deleted_reason", "_commit_timestamp", "_valid_from"]
    kept = table.table.frame([*present, *beside], within)
    changed = arrow_frame(known.rows).drop("_position", "_read_at", "_unread")
    changed = changed.filter(pl.Series([window.has(each) for each in changed["Id"]], dtype=pl.Boolean))
    gone = pl.Series(sorted(known.gone), dtype=pl.String).implode()
    changed = changed.filter(~pl.col("Id").is_in(gone))
    # Those that are found gone are deleted from here on: left out, they would be in no table after a rebuild.
    is_gone = pl.col("Id").is_in(gone)
    kept = kept.filter(~pl.col("Id").is_in(changed["Id"].implode())).with_columns(
        _is_deleted=pl.col("_is_deleted") | is_gone,
        _system_modstamp=pl.when((pl.col("_deleted_reason").fill_null("") != "hard_deleted") & ~is_gone).then(
            pl.coalesce("_commit_timestamp", "_valid_from")
        ),
        # Into which record one was merged is in no column; that it was is enough.
        _master_record_id=pl.when(pl.col("_deleted_reason") == "merged").then(pl.col("Id")),
    )
    whole = pl.concat(
        [kept.drop("_deleted_reason", "_commit_timestamp", "_valid_from"), changed], how="diagonal_relaxed"
    ).sort("Id")
    return whole.select(schema.names).to_arrow().cast(schema)
