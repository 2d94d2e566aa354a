"""What one application of an entity comes to: the readings of the org and the events to put in, and where.

Readings stand at their watermarks in the order of the stream; events go in between. A snapshot that has its watermark
before events which are in the rows already takes the tables back to its watermark, and they are applied again on top of
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import polars as pl
from pyspark.sql import SparkSession

from sfcdc_assets.apply.batch import Batch, SuspectEntity, read_batch
from sfcdc_assets.apply.batch_events import STORED, OlderEvents, batch_end, older_events, older_than_read_backs
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.apply.reads_in_order import last_below, org_reads_in_order, over_gaps, waiting_spans, with_seen_until
from sfcdc_assets.key_ranges.key_ranges import (
    KeyRange,
    key_ranges_of_snapshot,
    key_ranges_of_table,
    key_ranges_wanted,
    range_numbers,
    ranges_of_ids,
    to_look_into,
)
from sfcdc_assets.key_ranges.sample import look_into, sample_ids
from sfcdc_assets.lake.tables import current_state, snapshots
from sfcdc_assets.lake.tables.current_state import id_ranges
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.lake.tables.open_suspect import OpenSuspect, blocking_suspects
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot, ReadBackRows
from sfcdc_assets.timeline.suspect_behaviour import OF_A_SNAPSHOT, UNMARKED
from sfcdc_assets.timeline.timeline import OrgRead


@dataclass(frozen=True)
class BatchPlan:
    """`batch`: the events; `org_reads` with the `snapshots` and `read_backs` they are; `waiting`: the spans of the
    stream in which events wait, or waited, for a snapshot (`waiting_spans`); `key_ranges` of the tables, those to
    `visit` whether or not an event names them, and those that are `touched`: visited, or named by an event.

    `entity_suspect`: an event of the batch's end that makes the whole entity suspect, and is new. `suspected`: position
    of the last unanswered entry about the entity, 0 for none; `suspect_before`: the same, where rows are to be marked.
    `roll_back_to`: versions after it are followed again.
    """

    batch: Batch
    snapshots: tuple[CompleteSnapshot, ...]
    read_backs: tuple[ReadBackRows, ...]
    org_reads: tuple[OrgRead, ...]
    waiting: tuple[tuple[int, int], ...]
    roll_back_to: int | None
    entity_suspect: SuspectEntity | None
    suspected: int
    suspect_before: int | None
    key_ranges: tuple[KeyRange, ...]
    visit: frozenset[int]
    touched: frozenset[int]

    @property
    def record_ids(self) -> frozenset[str]:
        """Records that were read back."""
        return frozenset().union(*(read_back.record_ids for read_back in self.read_backs))


def plan(tables: EntityTables, spark: SparkSession, up_to: int | None) -> BatchPlan:
    """Find what is not in the tables yet: readings, and events up to the last complete transaction or `up_to`.

    Nothing is written. Events from one on that makes the entity suspect wait for a snapshot.
    """
    checkpoint = tables.checkpoint
    # A table that is rebuilt begins with the first snapshot after which every event still has its payload.
    dropped = tables.raw_events.payloads_dropped(tables.entity, tables.channel)
    taken = tables.taken.all_complete()
    complete = tuple(snapshot for snapshot in taken[:-1] if snapshot.position >= dropped) + taken[-1:]
    new = tuple(snapshot for snapshot in complete if snapshot.number > checkpoint.snapshot)
    rolls_back = bool(new) and not tables.from_scratch and new[0].position < checkpoint.position
    # A snapshot that was accepted late is older than records read back since: they come on top of it again.
    read_back = min([checkpoint.read_back, *(snapshot.after_read_back for snapshot in new)])
    read_backs = tables.taken.read_backs(read_back, new[0].position if rolls_back else None)
    if tables.from_scratch:
        read_backs = tuple(read_back for read_back in read_backs if read_back.position >= new[0].position)
    suspects = tables.ledger.open_suspects()
    read_at = [*(each.position for each in new), *(each.position for each in read_backs)]
    earliest = [*read_at, *_blocked_from(tables, suspects, complete, new, read_backs)]
    batch, entity_suspect, blocked, ever_blocked = _batch(
        tables, suspects, complete[0].position, earliest, max(read_at, default=0), up_to
    )
    suspected = max(blocked, default=0)
    # Once marked, rows stay so until they are read again; a snapshot that is older than the entry unmarks them. What
    # names a marked row waits, so the batch that ends just before the entry marks them and none of those before it.
    all_suspect = bool(blocked) and not batch.has_more and (bool(new) or checkpoint.suspected < suspected)
    if batch.has_more:
        suspected = min(blocked) - 1 if blocked and new else 0
    suspect_before = suspected if all_suspect else None
    everywhere = bool(new) or all_suspect
    read = sorted(frozenset().union(*(read_back.record_ids for read_back in read_backs)))
    concerned = None if everywhere else pl.concat([batch.record_ids, pl.Series(read, dtype=pl.String)])
    if new:
        key_ranges = _of_snapshots(tables, spark, new, rolls_back=rolls_back)
    else:
        key_ranges = _of_table(tables, spark, batch.created, concerned)
    visit = frozenset(each.number for each in key_ranges if everywhere or each.is_cut)
    visit |= frozenset(range_numbers(key_ranges, read))
    return BatchPlan(
        batch.without_ids(),
        new,
        read_backs,
        with_seen_until(tables, over_gaps(tables, org_reads_in_order(complete, new, read_backs, ever_blocked))),
        waiting_spans(complete, ever_blocked),
        new[0].position if rolls_back else None,
        entity_suspect,
        suspected,
        suspect_before,
        key_ranges,
        visit,
        visit | ranges_of_ids(key_ranges, batch.record_ids),
    )


def _blocked_from(
    tables: EntityTables,
    suspects: Sequence[OpenSuspect],
    complete: Sequence[CompleteSnapshot],
    new: Sequence[CompleteSnapshot],
    read_backs: Sequence[ReadBackRows],
) -> list[int]:
    """Positions before the events that were blocked until now and that a reading answers: they become versions.

    A record of which a snapshot was not believed was blocked with its entity, if that was suspect.
    """
    read = frozenset[str]().union(*(read_back.record_ids for read_back in read_backs))
    answered = [
        suspect
        for suspect in suspects
        if suspect.reason not in UNMARKED and not suspect.refuses_a_read and (new or suspect.record_id in read)
    ]
    watermarks = [-1, *(snapshot.position for snapshot in complete)]
    blocked = (
        tables.ledger.holding_positions(tables.channel) if any(d.reason in OF_A_SNAPSHOT for d in answered) else []
    )
    found = []
    for suspect in answered:
        position = suspect.position_on(tables.channel)
        before = [
            d for d in blocked if suspect.reason in OF_A_SNAPSHOT and last_below(watermarks, position) < d <= position
        ]
        found.append(min([position, *before]) - 1)
    return found


def _batch(
    tables: EntityTables,
    suspects: Sequence[OpenSuspect],
    floor: int,
    earliest: Sequence[int],
    latest: int,
    up_to: int | None,
) -> tuple[Batch, SuspectEntity | None, list[int], list[int]]:
    """Return the events to apply; one that makes the entity suspect, if it is new; positions of the unanswered entries
    about the entity, and of all there ever were or will be up to the `latest` watermark.

    The range begins before the applied position where a reading's watermark does, or an entry that it answers: events
    that waited for it lie there. It is read up to the `latest` watermark: what is not applied before a reading becomes
    versions with it. What is already in the rows is dropped again by the rows' own positions. What the first snapshot
    in the tables stands for, up to `floor`, is never read. Of very many events the first ones are taken (`batch_end`).
    """
    entity, channel, watermark = tables.entity, tables.channel, tables.snapshot.position
    applied = tables.checkpoint.position
    after = max(floor, min([applied, *earliest]))
    complete = tables.raw_events.complete_position(channel)
    end = max(complete if up_to is None else min(complete, up_to), after, applied, watermark)
    blocked = blocking_suspects(suspects, channel, watermark)
    end = max(applied, min([end, *(position - 1 for position in blocked)]))
    whole, end = end, batch_end(tables.raw_events, entity, channel, after, max(applied, watermark, latest), end)
    older = partial(_older, tables)
    batch = read_batch(tables.raw_events, entity, channel, after, end, max(end, latest), older)
    # A record may be read back after an event that waits for its transaction's end: the read hides what that one did.
    of_entity = [found.position for found in batch.entity_suspects]
    found = next((found for found in batch.entity_suspects if watermark < found.position <= end), None)
    if found is not None:
        blocked.append(found.position)
        end = found.position - 1
        batch = read_batch(tables.raw_events, entity, channel, after, end, max(end, latest), older)
    batch = replace(batch, has_more=found is None and end < whole)
    return batch, found, blocked, sorted({*tables.ledger.holding_positions(channel), *of_entity, *blocked})


def _older(tables: EntityTables, events: pl.DataFrame) -> OlderEvents:
    """Find what a copy, or a read-back of a record, stands for already. In a stream that is followed nothing is so old,
    which the log alone shows."""
    committed = pl.col("commit_timestamp")
    asked_at, read_back_at = tables.taken.asked_at(), tables.taken.read_back_asked_at()
    found, of_read_backs = OlderEvents(), OlderEvents()
    if asked_at is not None and not events.filter(committed < asked_at).is_empty():
        breaks = [lost.position for lost in lost_checkpoints(tables.warehouse, tables.channel)]
        found = older_events(events, tables.taken.copies(), breaks)
    old = events.filter(committed < read_back_at - STORED) if read_back_at is not None else events.clear()
    if not old.is_empty():
        first = old["commit_timestamp"].min()
        assert isinstance(first, datetime)
        of_read_backs = older_than_read_backs(old, pl.DataFrame(tables.taken.read_moments(first + STORED)))
    possible = (found.possible | of_read_backs.possible) - found.certain
    return OlderEvents(found.certain, possible, of_read_backs.of_records)


def _of_table(
    tables: EntityTables, spark: SparkSession, created: Sequence[str], concerned: pl.Series | None
) -> tuple[KeyRange, ...]:
    """Key ranges for changes of records with these Ids, or of all. Where another client left more files that overlap
    than a task may hold, it is first found which of them hold those records."""
    present = [] if tables.from_scratch else id_ranges(list(tables.current_state.files().values()))
    root = tables.warehouse.filesystem(current_state.name_of(tables.entity))
    looked_into = look_into(spark, to_look_into(present, concerned), root, concerned)
    return key_ranges_of_table(present, created, len(tables.columns), looked_into)


def _of_snapshots(
    tables: EntityTables, spark: SparkSession, new: Sequence[CompleteSnapshot], *, rolls_back: bool
) -> tuple[KeyRange, ...]:
    present = [] if tables.from_scratch else id_ranges(list(tables.current_state.files().values()))
    versions = []
    if rolls_back:
        watermark = new[0].position
        ends = ((file, file.statistics.get("max._superseded_at")) for file in tables.history.table.files())
        versions = id_ranges([file for file, end in ends if end is None or end > watermark])
    newest = id_ranges(new[-1].files)
    pages = [page for snapshot in new for page in id_ranges(snapshot.files)]
    size = sum(file.size for file in new[-1].files)
    sampled: list[str] = []
    if key_ranges_wanted(new[-1].rows, size) > 1:  # otherwise nothing is cut, and a job of Spark saved
        pages_root = tables.warehouse.filesystem(snapshots.name_of(tables.entity))
        sampled = sample_ids(spark, [page.path for page in newest], pages_root)
    return key_ranges_of_snapshot(sampled, new[-1].rows, size, pages, present, versions)
