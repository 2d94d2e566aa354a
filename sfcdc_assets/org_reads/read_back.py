"""Healing, the reading half: suspect records are read from the org and noted in `snapshot/<Entity>`.

What was read is durable before it is applied, so a process that dies in between has paid for nothing in vain, and every
table can be rebuilt without the org.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import LISTED_AS_DELETED, NOT_BELIEVED, OpenSuspect, due
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.compare import EXTRA
from sfcdc_assets.org_reads.records_by_id import read_back
from sfcdc_assets.org_reads.shown_events import not_shown, undecided
from sfcdc_assets.org_reads.stale_reads import (
    created,
    events_of_records,
    longest_lag_ms,
    older_than_events,
    said_alive,
    settled,
)
from sfcdc_assets.org_reads.vanished import TELL_OF_DELETES, remedy
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.rest_deadline import lengthen_unanswered_time
from sfcdc_assets.salesforce.view_all import Sight
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.timeline.suspect import Reason

RECORDS = 10_000
"""The most records of one reading: what is held in memory, and what a failure costs. The next one takes the rest."""
PATIENCE_MS = 60_000
"""How long an entry is due, at most, until somebody waits for it."""
READS = 3
"""How often a record whose row is older than its last event is read before it waits for the next attempt."""


@dataclass(frozen=True)
class ReadBackReport:
    """Suspect records that were asked for, found, gone; those whose read was older than their last event, those that
    could not be read though others were, and those that are not shown and not believed to be gone, with the reason; API
    requests spent; why the reading failed, if it did; and those for which it was `too_early`: the watermark of a read
    would not lie after their last event yet."""

    entity: str
    asked: int
    found: int = 0
    gone: int = 0
    stale: int = 0
    refused: int = 0
    not_believed: int = 0
    not_believed_why: str | None = None
    calls: int = 0
    oldest_opened_at: int | None = None
    error: str | None = None
    too_early: int = 0


@retry_on_conflict
def read_back_suspects(
    run: OrgRunContext, entity: str, channel: str, watermarks: Watermarks, *, waits: bool = True
) -> ReadBackReport | None:
    """Read the entity's suspect records back, those that may be asked for now; None when there are none.

    A read stands for what was received some seconds before it (`Watermarks`). With `waits` it is made when that is all
    that is in the tables; without, those records are read whose last event in the tables was received that long ago,
    and it waits only for one that has been due for `PATIENCE_MS`: a record may change again and again.

    A read that the org refuses or breaks off leaves the entries open, with the reason and the time in the ledger; the
    next attempt comes after a pause that doubles. Nothing is lost by it, and no other record is concerned: one that the
    org does not give, or that does not convert, waits with a reason and a pause of its own. A caller's patience with an
    org that answers nothing (`unanswered_at_most`) is longer for what was asked for in vain: the org may only be slow.
    """
    warehouse, org = run.warehouse, run.org
    ledger = Ledger.open(warehouse, entity)
    table = CurrentState.open(warehouse, entity)
    taken = Snapshots.open(warehouse, entity)
    suspects = due(ledger.open_suspects(), clock.now_ms()) if ledger else []
    if not suspects or ledger is None or table is None or taken is None:
        return None
    if not taken.has_watermark_on(channel):  # it has another channel by now, and positions of this one mean nothing
        return None
    calls, columns = org.session.calls, columns_of_table(Schemas(warehouse), entity, table.schema, run.privacy)
    applied, number, too_early, position = table.applied(channel) or 0, len(suspects), 0, None
    try:
        if not waits:
            position, suspects = _at_once(warehouse, entity, channel, watermarks, suspects, applied)
            too_early = number - len(suspects)
            if not suspects:
                return ReadBackReport(entity, 0, too_early=too_early)
        every_id = list(dict.fromkeys(suspect.record_id for suspect in suspects))
        record_ids = every_id[:RECORDS]
        chosen = set(record_ids)
        suspects = [suspect for suspect in suspects if suspect.record_id in chosen]
        lengthen_unanswered_time(min(suspect.attempts for suspect in suspects))
        if position is None:
            # A read that is older than what is in its row would be left out: the watermark lies after all of that.
            position = watermarks.of(channel, max(applied, *(each.position_on(channel) for each in suspects)))
        reading = _read(run, entity, channel, columns, position, suspects, record_ids)
        vanished = _vanished(table, ledger, reading.rows, reading.events, suspects)
        of_all = len(every_id) / len(record_ids)
        why = _why_not_believed(org, table, entity, len(vanished), reading.rows.num_rows, of_all)
    except SfcdcError as error:
        ledger.failed(suspects, str(error), clock.now_ms())
        return ReadBackReport(
            entity,
            asked=len({suspect.record_id for suspect in suspects}),
            calls=org.session.calls - calls,
            oldest_opened_at=min(suspect.opened_at for suspect in suspects),
            error=str(error),
            too_early=too_early,
        )
    not_believed = set(vanished) if why is not None else set()
    believed = _without(reading.rows, not_believed)
    if believed.num_rows:
        taken.add_read_back(believed, clock.now_ms(), reading.asked_at)
    failed = {
        **reading.refused,
        **dict.fromkeys(reading.stale, "the org's row was older than the record's last event, or not there yet"),
        **dict.fromkeys(not_believed, NOT_BELIEVED + (why or "")),
    }
    ledger.failed([suspect for suspect in suspects if suspect.record_id in failed], failed, clock.now_ms())
    if why is not None:
        ledger.refuse_read(Reason.VANISHED, channel, position, f"{why} {remedy(entity)}", clock.now_ms(), whole=False)
    gone = believed["_system_modstamp"].null_count
    return ReadBackReport(
        entity,
        asked=len(record_ids),
        found=believed.num_rows - gone,
        gone=gone,
        stale=len(reading.stale),
        refused=len(reading.refused),
        not_believed=len(not_believed),
        not_believed_why=why,
        calls=org.session.calls - calls,
        oldest_opened_at=min(suspect.opened_at for suspect in suspects),
        too_early=too_early,
    )


def _at_once(
    warehouse: Warehouse,
    entity: str,
    channel: str,
    watermarks: Watermarks,
    suspects: list[OpenSuspect],
    applied: int,
) -> tuple[int | None, list[OpenSuspect]]:
    """Return the watermark of a read that nothing waits for, and the entries that it answers: neither they nor an event
    of their records that is in the tables comes after it. No watermark, and all entries, where one of the others has
    been due for so long that it is to be waited for. Raises `SfcdcError`."""
    watermark, long_ago = watermarks.at_once(channel), clock.now_ms() - PATIENCE_MS
    later = events_of_records(RawEvents.open(warehouse), entity, channel, watermark, applied)
    changed, answered = set(later["record_id"].to_list()), []
    for each in suspects:
        if each.position_on(channel) <= watermark and each.record_id not in changed:
            answered.append(each)
        elif max(each.opened_at, each.due_at) < long_ago:
            return None, suspects
    return watermark, answered


@dataclass(frozen=True)
class _Reading:
    """What was read. `rows`: of records that are as new as their `events`; `stale`: ids of those that are not, however
    often they were read; `refused`: id -> why the org does not give the record; `asked_at`: before all of them were
    read, by the org's own clock."""

    rows: pa.Table
    events: pl.DataFrame
    stale: tuple[str, ...]
    refused: Mapping[str, str]
    asked_at: datetime | None


def _read(
    run: OrgRunContext,
    entity: str,
    channel: str,
    columns: Sequence[Column],
    position: int,
    suspects: Sequence[OpenSuspect],
    record_ids: Sequence[str],
) -> _Reading:
    """Read records, those whose rows are older than their last events up to `READS` times. Raises `SfcdcError`."""
    warehouse, session, lag_ms = run.warehouse, run.org.session, longest_lag_ms(run.settings.visibility_seconds)
    description = describe(session, entity)
    asked_at = session.asked_at
    events = _events(RawEvents.open(warehouse), entity, channel, suspects, clock.now_ms() - lag_ms)
    repeated = {each.record_id for each in suspects if each.attempts or each.detail in (EXTRA, LISTED_AS_DELETED)}
    fresh: list[pa.Table] = []
    refused: dict[str, str] = {}
    wanted = list(record_ids)
    for attempt in range(READS):
        if attempt:
            clock.sleep(doubled(2.0, lag_ms / 1000, attempt))
        now = clock.now()
        read = read_back(session, entity, wanted, columns, description, position, now)
        refused |= read.refused
        doubtful = partial(not_shown, warehouse, entity, channel, columns, read.rows)
        stale = _stale(read.rows, events, position, repeated, clock.now_ms() - lag_ms, doubtful)
        repeated |= stale
        fresh.append(_without(read.rows, stale))
        wanted = sorted(stale)
        if not wanted:
            break
    return _Reading(pa.concat_tables(fresh), events, tuple(wanted), refused, asked_at)


def _without(rows: pa.Table, record_ids: Collection[str]) -> pa.Table:
    return rows.filter(pa.array([each not in record_ids for each in rows["Id"].to_pylist()], pa.bool_()))


def _vanished(
    table: CurrentState, ledger: Ledger, rows: pa.Table, events: pl.DataFrame, suspects: Sequence[OpenSuspect]
) -> Collection[str]:
    """Ids of living rows that would be gone by what was read. What an event says is deleted, the org lists so, or a
    person has accepted, is believed, and not among them."""
    gone = set(rows.filter(pc.is_null(rows["_system_modstamp"]))["Id"].to_pylist())
    accepted_at = ledger.accepted_at()
    believed = {
        each.record_id for each in suspects if each.opened_at <= accepted_at or each.detail == LISTED_AS_DELETED
    }
    last = events.unique("record_id", keep="last", maintain_order=True)
    description = set(last.filter(pl.col("change_type").is_in(TELL_OF_DELETES))["record_id"].to_list())
    return table.living_of(sorted(gone - believed - description))


def _why_not_believed(
    org: OrgConnection, table: CurrentState, entity: str, vanished: int, read: int, of_all: float
) -> str | None:
    """Return why so many living rows are not believed to be gone, of so many that were read; None where they are.
    `of_all`: how many times more records are suspect than were read now."""
    if not vanished:
        return None
    if org.view_all.of(entity) is Sight.SHARED:
        return f"The user lacks View All on {entity}: {counted(vanished, 'record')} not shown, none deleted."
    limits = org.vanish_limits_of(entity)
    if not limits.exceeded(vanished, read):
        return None
    living = table.living()
    if not limits.exceeded(vanished * of_all, living):
        return None
    return (
        f"{vanished:,} of {counted(read, 'record')} read back, of {counted(living, 'living row')}, not in the org any "
        "more; none is deleted."
    )


def _events(
    raw_events: RawEvents, entity: str, channel: str, suspects: Sequence[OpenSuspect], since_ms: int
) -> pl.DataFrame:
    """Return the entity's events since the first entry, and those before it that were received after a time."""
    first = min(suspect.position_on(channel) for suspect in suspects)
    recent = raw_events.first_position_received_after(channel, since_ms)
    after = min([first, *([recent] if recent is not None else [])]) - 1
    return events_of_records(raw_events, entity, channel, after, raw_events.last_position(channel))


def _stale(
    rows: pa.Table,
    events: pl.DataFrame,
    position: int,
    repeated: Collection[str],
    since_ms: int,
    doubtful: Callable[[pl.DataFrame], set[str]],
) -> set[str]:
    """Ids of rows, with a watermark at `position`, that show an older state than the events, or no record where there
    should be one: a deleted one too, if it is so new that the org may not show it yet, is in the recycle bin. Of events
    that SystemModstamp does not decide, `doubtful` returns the records. A `repeated` read of a record whose last event
    was received by `since_ms` is the truth, whatever the row's SystemModstamp."""
    read = pl.DataFrame(rows.select(["Id", "_system_modstamp"]))
    missing = set(read.filter(pl.col("_system_modstamp").is_null())["Id"].to_list())
    contained = events.filter(pl.col("position") <= position)
    surely_seen = settled(repeated, contained, since_ms)
    in_question = undecided(read.filter(~pl.col("Id").is_in(surely_seen)), contained)
    older = (older_than_events(read, contained) - surely_seen) | doubtful(in_question)
    return older | (missing & (said_alive(events) | created(events))) - settled(repeated, events, since_ms)
