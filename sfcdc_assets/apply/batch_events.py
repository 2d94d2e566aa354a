"""Which events a batch takes: up to the end of a transaction when there are very many, and none that is older than
what a copy of the entity stands for, or of a record that was read back what the read-back does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import polars as pl

from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshot_reads import Copied
from sfcdc_assets.streams.delivered_event import KEPT_AT_MOST_MS

MOST_EVENTS = 500_000
"""Events of an entity in one batch, or more if no transaction ends before. The driver takes 250 MB for them. With
fewer, a table that changes everywhere would be written again more often than it must be."""
NEAR = 200_000
"""Positions before and behind the wanted end among which a transaction's end is looked for."""


def batch_end(raw_events: RawEvents, entity: str, channel: str, after: int, least: int, end: int) -> int:
    """`end`, or where a transaction ends before it if there are more than `MOST_EVENTS` from `after` to `end`.

    Always after `least`: events up to there are needed at once. Where no transaction ends near the place, `end`.
    """
    wanted = _position_of(raw_events, entity, channel, after, end, MOST_EVENTS)
    if wanted is None:
        return end
    wanted = max(wanted, least)
    columns = ["position", "transaction_key", "event_id", "record_ids"]
    rows = raw_events.headers(entity, channel, columns, after=wanted - NEAR, up_to=min(end, wanted + NEAR))
    ends = _ends_of_transactions(pl.DataFrame(rows).sort("position"))
    ends = ends.filter(ends > max(after, least))
    before, behind = ends.filter(ends <= wanted), ends.filter(ends > wanted)
    if not before.is_empty():
        return int(before[-1])
    return end if behind.is_empty() else int(behind[0])


def _ends_of_transactions(events: pl.DataFrame) -> pl.Series:
    """Return the positions between two of the events at which no transaction is under way: each that has begun has had
    its last one. A second copy of an event is none of its transaction's, and may lie within another one."""
    of_one_event = pl.struct("event_id", pl.col("record_ids").list.join(","))
    own = events.with_columns(own=pl.when(of_one_event.is_first_distinct()).then("position"))
    under_way_until = pl.col("own").max().over("transaction_key").fill_null(pl.col("position")).cum_max()
    return own.filter(under_way_until <= pl.col("position"))["position"].head(-1)


def _position_of(raw_events: RawEvents, entity: str, channel: str, after: int, end: int, number: int) -> int | None:
    """Return the position of the entity's event with this number after a position; None if there are not more. The log
    alone shows that there are few."""
    files = raw_events.files(entity, channel, after, end)
    left = sorted(files, key=lambda file: int(file.statistics["min.position"]), reverse=True)
    counted, last = 0, after
    while True:
        rows, until = 0, last
        while left and counted + rows <= number:
            file = left.pop()
            rows, until = rows + file.rows, max(until, int(file.statistics["max.position"]))
        if counted + rows <= number:
            return None
        positions = raw_events.headers(entity, channel, ["position"], after=last, up_to=min(until, end))["position"]
        if counted + len(positions) > number:
            return int(pl.Series(positions).sort()[number - counted - 1]) if counted < number else last
        counted, last = counted + len(positions), until


LONGEST_TRANSACTION = timedelta(minutes=15)
"""A commit timestamp may be so much older than the moment from which on queries show the commit: a transaction may run
for ten minutes."""

_KEPT_AT_MOST = timedelta(milliseconds=KEPT_AT_MOST_MS)
STORED = timedelta(minutes=1)
"""A stream that is followed brings an event within that time of its commit. Read-backs are made all the time, and what
comes so soon after one is applied on top of it: a record that changes again and again would otherwise be read back
again and again."""


@dataclass(frozen=True)
class OlderEvents:
    """Positions of events that come after a copy of their entity though they were committed before it: those that it
    stands for (`certain`), and those that it may have been made too early for (`possible`): their transaction may have
    run on. Of the latter each record says for itself (`timeline/known_changes.py`).

    `of_records`: changes of single records that are as old against a read-back of the record, each as the record's Id,
    the event's position and the read-back's watermark. `possible` has those that are perhaps.
    """

    certain: frozenset[int] = frozenset()
    possible: frozenset[int] = frozenset()
    of_records: tuple[tuple[str, int, int], ...] = ()


def older_events(events: pl.DataFrame, copies: Sequence[Copied], breaks: Sequence[int]) -> OlderEvents:
    """Find which of the events (`position`, `commit_timestamp`, `received_at`) are older than a copy of their entity,
    though they come after it.

    `breaks`: positions at which the channel's checkpoint was lost. What came after a break and before the copy that
    answers it is not landed twice, so it is either newer than the copy before the break, or older than it; no value of
    today rests on it, and no margin is needed.
    """
    position, committed = pl.col("position"), pl.col("commit_timestamp")
    is_older = was_before = pl.lit(value=False)
    for copy in copies:
        came_later = (position > copy.position) & (pl.col("received_at") >= copy.begun_at)
        is_kept = committed > copy.asked_at - _KEPT_AT_MOST
        was_before |= came_later & is_kept & (committed < copy.asked_at)
        is_older |= came_later & is_kept & (committed < copy.asked_at - LONGEST_TRANSACTION)
        answered = [
            (broken, next((each.position for each in copies if each.position >= broken), None))
            for broken in breaks
            if broken > copy.position
        ]
        for broken, watermark in answered:
            if watermark is not None:
                is_older |= position.is_between(broken, watermark) & is_kept & (committed < copy.asked_at)
    certain = frozenset(events.filter(is_older)["position"].to_list())
    return OlderEvents(certain, frozenset(events.filter(was_before)["position"].to_list()) - certain)


def older_than_read_backs(events: pl.DataFrame, reads: pl.DataFrame) -> OlderEvents:
    """Find which changes of the events (`record_ids` besides) are older than a read-back of their record (`reads`:
    `READ_MOMENTS`), though they come after it.

    A stream that fails, or brings a backlog, keeps no record from being read back: its events come after the read, and
    would undo what no event reports. A read-back stands for its records alone.
    """
    if reads.is_empty() or events.is_empty():
        return OlderEvents()
    committed, asked_at = pl.col("commit_timestamp"), pl.col("_asked_at")
    named = events.select("position", "commit_timestamp", "received_at", pl.col("record_ids").alias("Id")).explode("Id")
    met = named.join(reads.rename({"_position": "watermark"}), on="Id").filter(
        pl.col("position") > pl.col("watermark"),
        pl.col("received_at") >= pl.col("_read_at"),
        committed.is_between(asked_at - _KEPT_AT_MOST, asked_at - STORED, closed="none"),
    )
    is_certain = committed < asked_at - LONGEST_TRANSACTION
    certain = met.filter(is_certain).group_by("Id", "position").agg(pl.col("watermark").min()).sort("position", "Id")
    possible = frozenset(met.filter(~is_certain)["position"].to_list())
    return OlderEvents(possible=possible, of_records=tuple(certain.rows()))
