"""Where a batch ends when there is very much to apply: behind a transaction, and the rest is a batch after it.

The driver reads the headers of a batch's events, half a kilobyte of memory for each, and a task all changes of its
key range. Neither may depend on how long nothing was applied, or on how many events a rebuild has before it.
"""

from __future__ import annotations

import polars as pl

from sfcdc_assets.lake.raw_events import RawEvents

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
    first, last = max(after, wanted - NEAR), min(end, wanted + NEAR)
    rows = raw_events.headers(entity, channel, ["position", "transaction_key"], after=first, up_to=last)
    found = pl.DataFrame(rows).sort("position")
    is_last = pl.col("transaction_key") != pl.col("transaction_key").shift(-1)
    ends = found.filter(is_last & (pl.col("position") > max(after, least)))["position"]
    before, behind = ends.filter(ends <= wanted), ends.filter(ends > wanted)
    if not before.is_empty():
        return int(before[-1])
    return end if behind.is_empty() else int(behind[0])


def _position_of(raw_events: RawEvents, entity: str, channel: str, after: int, end: int, number: int) -> int | None:
    """The position of the entity's event with this number after a position; None if there are not more. The log alone
    shows that there are few."""
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
