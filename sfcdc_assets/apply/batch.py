"""A batch of one entity: its headers, read once on the driver, say what the tasks cannot see.

These are the events that were published twice (the other copy may lie in any file) and the events that speak of the
whole entity (an overflow, a wildcard id). Only small columns are read, and of older files only those whose commit times
overlap the batch's: copies of an event have the same header.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from sfcdc_assets.apply.batch_events import OlderEvents
from sfcdc_assets.key_ranges.key_ranges import SAMPLED
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.timeline.changes import may_name_more, names_one_record
from sfcdc_assets.timeline.implied_change import may_be_merged, possibly_merged
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

MANY = 50_000
"""Events, at some 500 bytes each."""
_ONE_LARGE = threading.Lock()
"""Held where there may be many: entities are planned beside each other, and their headers would add up."""
COLUMNS = ("position", "event_id", "record_ids")
_SAME = ["event_id", "records"]


def second_copies(events: pl.DataFrame, older: pl.DataFrame) -> frozenset[int]:
    """Positions of those of the events (`COLUMNS`) that are copies of an older one, or of one of them at a lower
    position."""
    numbers, known = _numbers(events), _numbers(older)
    alike = numbers.is_duplicated() | numbers.is_in(known.implode())
    if not alike.any():
        return frozenset()
    suspects = _named(events.filter(alike))
    seen = _named(older.filter(known.is_in(numbers.implode())))
    first = suspects.join(seen, on=_SAME, how="anti").unique(_SAME, keep="first", maintain_order=True)
    return frozenset(suspects.join(first, on="position", how="anti")["position"].to_list())


def _numbers(events: pl.DataFrame) -> pl.Series:
    """Return a hash of each event's uuid and record ids: equal ones have the same."""
    return events.select(pl.struct("event_id", _records()).hash().alias("number"))["number"]


def _named(events: pl.DataFrame) -> pl.DataFrame:
    return events.sort("position").select("position", "event_id", _records())


def _records() -> pl.Expr:
    return pl.col("record_ids").list.join(",").alias("records")


_COLUMNS = ["position", "event_id", "record_ids", "change_type", "commit_timestamp", "received_at"]


@dataclass(frozen=True)
class SuspectEntity:
    """An event after which the entity as a whole has to be read again."""

    reason: Reason
    position: int
    detail: str


@dataclass(frozen=True)
class Committed:
    """How many events, and when the org committed the oldest and the newest of them; None without any."""

    events: int = 0
    between: tuple[datetime, datetime] | None = None


@dataclass(frozen=True)
class Batch:
    """Events with after < position <= read_to, of which those up to `up_to` are applied and the others wait: how many
    there are, the positions of second copies, what is `older` than a copy of the entity, the events that make the
    entity suspect, those that wait too, and every `SAMPLED`th id of the records they create; both in order."""

    after: int
    up_to: int
    read_to: int
    events: int
    duplicates: frozenset[int]
    older: OlderEvents
    entity_suspects: tuple[SuspectEntity, ...]
    created: tuple[str, ...] = ()
    merged: tuple[NewSuspect, ...] = ()
    """Entries about records that may have been merged, of the events up to `up_to`."""
    record_ids: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.String), repr=False, compare=False)
    """Those that the events name, each once; none where they are not needed any more (`without_ids`)."""
    headers: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, compare=False)
    """`position` and `commit_timestamp` of each."""
    has_more: bool = False
    """There are complete transactions after `up_to`, for another batch."""

    def without_ids(self) -> Batch:
        """Return the batch with what is kept until it is committed: ids are the most of what the driver holds of a
        large one."""
        return replace(self, record_ids=pl.Series(dtype=pl.String))

    def committed_after(self, position: int) -> Committed:
        """Return the events that are applied and lie after a position."""
        if self.headers.is_empty():
            return Committed()
        new = self.headers.filter(pl.col("position").is_between(position, self.up_to, closed="right"))
        times = new["commit_timestamp"]
        return Committed(new.height, (times.min(), times.max()) if new.height else None)  # type: ignore[arg-type]


def read_batch(
    raw_events: RawEvents,
    entity: str,
    channel: str,
    after: int,
    up_to: int,
    read_to: int,
    older_than_copies: Callable[[pl.DataFrame], OlderEvents] = lambda _: OlderEvents(),
) -> Batch:
    """Read the headers of a batch and find duplicates, events that are older than the entity's copies and those that
    make the entity suspect."""
    with _ONE_LARGE if read_to - after > MANY else nullcontext():
        headers = raw_events.headers(entity, channel, _COLUMNS, after=after, up_to=read_to)
        if headers.num_rows == 0:
            return Batch(after, up_to, read_to, 0, frozenset(), OlderEvents(), ())
        frame = pl.DataFrame(headers).sort("position")
        del headers
        times = frame["commit_timestamp"].sort()
        older = raw_events.headers(entity, channel, COLUMNS, after=0, up_to=after, committed=(times[0], times[-1]))
        duplicates = second_copies(frame, pl.DataFrame(older))
        outdated = older_than_copies(frame)
        left_out = duplicates | outdated.certain
        fresh = frame.filter(~pl.col("position").is_in(left_out)) if left_out else frame
        suspects = tuple(_entity_suspects(fresh))
        record_ids = fresh["record_ids"].explode().drop_nulls().unique()
        times_of = frame.select("position", "commit_timestamp")
        created = _created(fresh)
        complete = fresh.filter(pl.col("position") <= up_to)
        merged: tuple[NewSuspect, ...] = ()
        if may_be_merged(
            entity, complete
        ):  # keys of transactions would be a third of what a large batch takes in memory
            keys = raw_events.headers(entity, channel, ["position", "transaction_key"], after=after, up_to=up_to)
            merged = tuple(possibly_merged(complete.join(pl.DataFrame(keys), on="position")))
        return Batch(
            after, up_to, read_to, frame.height, duplicates, outdated, suspects, created, merged, record_ids, times_of
        )


def _created(headers: pl.DataFrame) -> tuple[str, ...]:
    ids = headers.filter(pl.col("change_type") == "CREATE")["record_ids"].explode().sort()
    return tuple(ids.gather_every(SAMPLED, offset=SAMPLED - 1))


def _entity_suspects(headers: pl.DataFrame) -> Iterator[SuspectEntity]:
    names_more = pl.col("record_ids").list.eval(may_name_more(pl.element())).list.any()
    for row in headers.filter((pl.col("change_type") == Reason.GAP_OVERFLOW) | names_more).iter_rows(named=True):
        if row["change_type"] == Reason.GAP_OVERFLOW:
            yield SuspectEntity(Reason.GAP_OVERFLOW, row["position"], "the transaction had too many changes for events")
        elif not all(names_one_record(record_id) for record_id in row["record_ids"]):
            yield SuspectEntity(
                Reason.WILDCARD, row["position"], f"{row['change_type']} of {','.join(row['record_ids'])}"
            )
