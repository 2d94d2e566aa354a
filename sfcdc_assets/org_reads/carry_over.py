"""An entity that gets another channel takes its table along: what the table has, with what changed since it was last
proven, stands as a snapshot at a watermark of the new channel. No copy is made.

What is proven: up to the last event that is applied, or the last poll whose rows are, all changes are in the rows. What
the org has stamped since then, with the time before it of which changes may become visible late, is asked for by REST;
records that it has deleted for good are found by counting. So it does not matter what happened between the two
channels, and from the watermark on the new one tells of every change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.store.poll_notes import PollNote, note_polls, read_poll_notes
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import open_suspects
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.records_by_id import ReadBack, read_back
from sfcdc_assets.org_reads.take_snapshot import NO_JOB, SnapshotReport, ToCopy
from sfcdc_assets.polls.cursor import OPEN_BEFORE, REREAD, Cursor, order
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.polls.sweep import PARTS, Ids, Sweep, left_out
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.composite_query import QueryPage, counts, first_pages, next_page
from sfcdc_assets.salesforce.describe import describe_whole
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.view_all import Sight
from sfcdc_assets.schema_evolution.layout import follow_layout
from sfcdc_assets.schema_evolution.table_columns import check_privacy
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.pages import page_schema, rows_per_page
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import IdWindow
from sfcdc_assets.timeline.rest_rows import typed_rows

MOST_CHANGED = 100_000
"""Records that may have changed since; of more, a copy takes fewer requests."""
MOST_UNCERTAIN = 2_000
"""Records that are read by their Ids, because the table's rows are not certain or not the last ones that were read."""
MOST_COUNTS = 100
"""Requests for counting what is deleted for good."""
_ALWAYS = ("Id", "IsDeleted", "MasterRecordId")
_UNCERTAIN = "_in_doubt or (not _is_deleted and (_certain_fields is not null or _change_type is null))"


@dataclass(frozen=True)
class _Known:
    """What changed since the table was proven: `rows` (columns, `READ_COLUMNS`); Ids of records that are `gone` for
    good; and when the org was asked, by its own clock."""

    rows: pa.Table
    gone: frozenset[str]
    asked_at: datetime | None


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
    if before is None or before == channel or (proven := _proven(warehouse, entity, before, table, taken)) is None:
        return None
    started, calls = time.monotonic(), run.org.session.calls_of_this_thread
    described = describe_whole(run.org.session, entity)
    schemas = Schemas(warehouse)
    newest = run.org.newest_schema(entity, described, clock.now_ms(), polled=is_polled(channel))
    schemas.add(newest, described={entity: clock.now_ms()})
    check_privacy(schemas, entity, {table.table.name: table.schema, taken.table.name: taken.table.schema}, run.privacy)
    columns = follow_layout(run, schemas, taken, None, entity, channel)
    if open_suspects(warehouse, entity, of_the_entity=True):  # columns are new, or were not read, or have another type
        return None
    if is_polled(before) and _changes_without_a_stamp(described.object):  # what polls compare later is compared no more
        return None
    started_at_ms, position = clock.now_ms(), watermark(wanted.at_least)
    known = _changed_since(run, entity, table, columns, described.object, proven, position)
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


@dataclass(frozen=True)
class _Proven:
    """All that the org stamped before `until` is in the rows, but for what was read of records and waits to be applied:
    of those that are `waiting` the table does not say what was read, and their stamps may be of any time."""

    until: datetime
    waiting: frozenset[str]


def _proven(warehouse: Warehouse, entity: str, before: str, table: CurrentState, taken: Snapshots) -> _Proven | None:
    """Return from when on the org's stamps are asked for. None where that is not known."""
    checkpoint, copied_at = table.checkpoint(before), taken.asked_at()
    if checkpoint.snapshot < taken.complete_number() or copied_at is None:
        return None
    times, open_for = [copied_at], OPEN_BEFORE
    pending = taken.read_backs(checkpoint.read_back)
    if is_polled(before):
        note, mark = read_poll_notes(warehouse).get(entity, PollNote()), taken.poll_mark()
        times += [Cursor.of_ms(max(mark.read_from_ms, note.read_from_ms)).stamp + REREAD]
        if note.covered_ms:
            times, open_for = [min(max(times), Cursor.of_ms(note.covered_ms).stamp)], REREAD
    else:
        events = RawEvents.open(warehouse).headers(
            entity, before, ["commit_timestamp"], after=0, up_to=checkpoint.position
        )
        last = pc.max(events["commit_timestamp"]).as_py()
        times += [last.astimezone(UTC)] if last is not None else []
    unseen = [each.seen_until for each in pending if each.seen_until is not None]
    waiting = frozenset[str]().union(*(each.record_ids for each in pending))
    return _Proven(min([max(times), *unseen]) - open_for, waiting)


def _changed_since(
    run: OrgRunContext,
    entity: str,
    table: CurrentState,
    columns: tuple[Column, ...],
    description: ObjectDescription,
    proven: _Proven,
    position: int,
) -> _Known | None:
    session, read_at = run.org.session, clock.now()
    try:
        by = readability(description).stamp
    except NotPollable:
        return None
    if by is None:
        return None
    stamp = by.field
    unknown = table.table.scan(["Id"], _UNCERTAIN)["Id"]
    if len(unknown) > MOST_UNCERTAIN + MOST_CHANGED:
        return None
    uncertain = {*unknown.to_pylist(), *proven.waiting}
    spelt = by_any_case(description.field_names)
    asked = {spelt[each.name.lower()]: each.name for each in columns if each.name.lower() in spelt}
    beside = [name for name in (*_ALWAYS, stamp) if name in description.field_names]
    fields = tuple(dict.fromkeys([*beside, *asked]))
    unread = sorted({each.name for each in columns} - set(asked.values()) - {"Id"}) or None
    soql = f"SELECT {', '.join(fields)} FROM {entity} WHERE {Cursor(proven.until).condition(stamp)} {order(stamp)}"
    found: dict[str, Mapping[str, object]] = {}
    (page,) = first_pages(session, [soql])
    if not isinstance(page, QueryPage):
        raise page
    asked_at = page.asked_at
    while True:
        found |= {str(row["Id"]): {asked.get(name, name): each for name, each in row.items()} for row in page.rows}
        if page.next_path is None:
            break
        if len(found) > MOST_CHANGED:
            return None
        page = next_page(session, soql, page.next_path)

    def read_by_id(record_ids: list[str]) -> ReadBack:
        return read_back(session, entity, record_ids, columns, description, position, read_at)

    rows, spoiled = typed_rows(session.url_of("queryAll/"), found, columns, unread, position, read_at, stamp=stamp)
    by_id = sorted(uncertain - found.keys())
    if spoiled or len(by_id) > MOST_UNCERTAIN or (rows_now := _with(rows, by_id, read_by_id)) is None:
        return None
    counted = _counted(run, entity, _living_after(table, rows_now))
    if counted is None or (rows_now := _with(rows_now, sorted(counted.lacking), read_by_id)) is None:
        return None
    return _Known(rows_now, counted.gone, asked_at)


def _with(rows: pa.Table, record_ids: list[str], read: Callable[[list[str]], ReadBack]) -> pa.Table | None:
    """Return the rows, and those of more records as they are read now; None where one of these cannot be read."""
    if not record_ids:
        return rows
    found = read(record_ids)
    return None if found.refused or found.left else pa.concat_tables([rows, found.rows])


def _living_after(table: CurrentState, rows: pa.Table) -> Ids:
    """Return the Ids of the records that live by the table and what changed since, in order."""
    kept = left_out(table.living_ids(), rows["Id"].to_pylist())
    living = rows.filter(pc.invert(rows["_is_deleted"]))["Id"].to_pylist()
    ids = np.concatenate([kept, np.array(living, "S18")])
    ids.sort()
    return ids


@dataclass(frozen=True)
class _Counted:
    """What counting has shown: records that the org does not have any more (`gone`), and those that the table is
    `lacking`, as they came meanwhile or were outside of the condition by which it was polled."""

    gone: frozenset[str]
    lacking: frozenset[str]


def _counted(run: OrgRunContext, entity: str, living: Ids) -> _Counted | None:
    """Return how the org's records differ from those that live by our account; None where it takes too many requests
    to find out, or so many differ that they are copied, or a person should look at it."""
    session, sweep, gone, lacking = run.org.session, Sweep(living), set[str](), set[str]()
    for _ in range(MOST_COUNTS):
        if sweep.is_over:
            break
        windows = sweep.to_count(PARTS)
        if windows:
            answers = counts(session, [_query("COUNT()", entity, window) for window in windows])
            found: dict[IdWindow, int] = {}
            for window, answer in zip(windows, answers, strict=True):
                if isinstance(answer, Exception):
                    raise answer
                if answer > len(sweep.ids_in(window)) + MOST_UNCERTAIN:
                    return None
                found[window] = answer
            sweep.counted(found)
        listed = sweep.to_list()
        if listed is not None:
            ours = {each.decode() for each in sweep.ids_in(listed)}
            theirs = {str(row["Id"]) for row in query_rows(session, _query("Id", entity, listed))}
            gone |= ours - theirs
            lacking |= theirs - ours
    too_many = len(lacking) > MOST_UNCERTAIN or run.org.vanish_limits_of(entity).exceeded(len(gone), len(living))
    return None if too_many or not sweep.is_over else _Counted(frozenset(gone), frozenset(lacking))


def _query(what: str, entity: str, window: IdWindow) -> str:
    return f"SELECT {what} FROM {entity}" + (f" WHERE {window.condition}" if window.condition else "")


def _write(
    taken: Snapshots, table: CurrentState, columns: tuple[Column, ...], known: _Known, progress: SnapshotProgress
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


def _page(table: CurrentState, columns: tuple[Column, ...], known: _Known, window: IdWindow) -> pa.Table:
    """Return the rows of a window of Ids: those of the table, and in their places what changed since."""
    schema, names = page_schema(columns), [column.name for column in columns]
    present = [name for name in names if name in table.schema.names]
    # Deleted records too: a rebuild begins with what this has.
    within = f"_change_type is not null{f' and {window.condition}' if window.condition else ''}"
    beside = ["_is_deleted", "_deleted_reason", "_commit_timestamp", "_valid_from"]
    kept = arrow_frame(table.table.scan([*present, *beside], within))
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
