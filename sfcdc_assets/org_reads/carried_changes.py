"""What has changed of an entity since its table was last proven, asked of the org by REST: by stamps, by the Ids of
records that the table is not certain of, and by counting those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.records_by_id import ReadBack, read_back
from sfcdc_assets.polls.cursor import OPEN_BEFORE, REREAD, Cursor, order
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.polls.sweep import PARTS, Ids, Sweep, left_out
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.composite_query import QueryPage, counts, first_pages, next_page
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.settings.channel_kinds import is_polled
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
class CarriedChanges:
    """What changed since the table was proven: `rows` (columns, `READ_COLUMNS`); Ids of records that are `gone` for
    good; and when the org was asked, by its own clock."""

    rows: pa.Table
    gone: frozenset[str]
    asked_at: datetime | None


@dataclass(frozen=True)
class Proven:
    """All that the org stamped before `until` is in the rows, but for what was read of records and waits to be applied:
    of those that are `waiting` the table does not say what was read, and their stamps may be of any time."""

    until: datetime
    waiting: frozenset[str]


def proven_rows(warehouse: Warehouse, entity: str, before: str, table: CurrentState, taken: Snapshots) -> Proven | None:
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
    return Proven(min([max(times), *unseen]) - open_for, waiting)


def carried_changes(
    run: OrgRunContext,
    entity: str,
    table: CurrentState,
    columns: tuple[Column, ...],
    description: ObjectDescription,
    proven: Proven,
    position: int,
) -> CarriedChanges | None:
    """Return what changed since, with rows at `position`; None where a copy takes fewer requests, no stamp says it, or
    records cannot be read. Raises what the org refuses."""
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
    return CarriedChanges(rows_now, counted.gone, asked_at)


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
