"""Snapshots and read-backs in the order in which a batch puts them among the events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.apply.batch_events import LONGEST_TRANSACTION
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot, ReadBackRows
from sfcdc_assets.timeline.suspect_behaviour import SILENT
from sfcdc_assets.timeline.timeline import OrgRead

END_OF_STREAM = 2**63 - 1
"""After every position."""


def with_seen_until(tables: EntityTables, org_reads: Sequence[OrgRead]) -> tuple[OrgRead, ...]:
    """Return the reads with the time up to which the events before them tell of everything; of a poll the ones before
    it did. Commits come in no strict order of their times, so the last event's is too late by `LONGEST_TRANSACTION`."""
    last = {until: tables.raw_events.committed_at(tables.channel, until) for until in {r.until for r in org_reads}}
    known = {until: at - LONGEST_TRANSACTION for until, at in last.items() if at is not None}
    return tuple(
        org_read if org_read.polled else replace(org_read, seen_until=known.get(org_read.until))
        for org_read in org_reads
    )


def over_gaps(tables: EntityTables, org_reads: Sequence[OrgRead]) -> list[OrgRead]:
    """Return the reads, those marked that answer an entry of changes without events of which nobody knows where in the
    stream they have their place."""
    gaps = [at for at, reason in tables.ledger.holding(tables.channel) if reason in SILENT] if org_reads else []
    return [
        replace(each, may_miss=not each.polled and any(each.until < at <= each.position for at in gaps))
        for each in org_reads
    ]


def org_reads_in_order(
    complete: Sequence[CompleteSnapshot],
    new: Sequence[CompleteSnapshot],
    read_backs: Sequence[ReadBackRows],
    suspected: Sequence[int],
) -> tuple[OrgRead, ...]:
    """Return new snapshots and read-backs in the order of their watermarks, those of one watermark in that of their
    reading. An entry about the entity stops events until the next snapshot, which answers it."""
    read_after = {each.number: each.after_read_back for each in new}
    found = [
        OrgRead(each.position, 0, snapshot=each.number, pages=frozenset(file.path for file in each.files))
        for each in new
    ]
    found += [
        OrgRead(each.position, 0, read_back=each.number, seen_until=each.seen_until, polled=each.seen_until is not None)
        for each in read_backs
    ]
    watermarks = [-1, *(snapshot.position for snapshot in complete)]
    return tuple(
        replace(
            each,
            until=min(
                [
                    each.position,
                    *(d - 1 for d in suspected if last_below(watermarks, each.position) < d <= each.position),
                ]
            ),
        )
        for each in sorted(
            found,
            key=lambda each: (each.position, each.read_back or read_after[each.snapshot], each.snapshot),
        )
    )


def waiting_spans(complete: Sequence[CompleteSnapshot], suspected: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the spans of the stream, after the first position and up to the second, in which events wait for a
    snapshot: from an entry about the entity to the watermark that answers it, or on and on. They are the same in
    whatever batch an event of theirs is applied, with the snapshot or with a later read of its record."""
    watermarks = [*sorted(snapshot.position for snapshot in complete), END_OF_STREAM]
    firsts: dict[int, int] = {}
    for at in sorted(suspected):
        firsts.setdefault(watermarks[bisect_left(watermarks, at)], at)
    return tuple((first - 1, watermark) for watermark, first in firsts.items())


def last_below(watermarks: Sequence[int], position: int) -> int:
    """Return the last snapshot's watermark before a position: entries up to it were answered by it."""
    return max(watermark for watermark in watermarks if watermark < position)
