"""Which objects are due to be asked, in what order, and how long those that fail are left alone.

Time is parted into intervals, the same for all objects, and an object is asked once in each, or once in several of them
where it has been quiet for long or has failed: so those that are due are due together, and travel five in a request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from zlib import crc32

QUIET = ((0, 1), (8, 2), (32, 4))
"""After so many intervals without a change an object is asked once in so many intervals."""

_MOST_PAUSES = 6


def interval_after(interval_ms: int, failures: int) -> int:
    """Return after how long (ms) an object is asked again that failed so often in a row: an interval, two, four, and so
    on, up to 64."""
    return interval_ms * (1 << min(failures, _MOST_PAUSES))


@dataclass(frozen=True)
class Asked:
    """When an object was last asked (epoch ms by our clock; 0: never), how often in a row that has failed, for how long
    (ms) it had been without a change by then, its own interval (ms; 0: that of all), and whether that left records for
    the next time, which has come then."""

    at_ms: int = 0
    failures: int = 0
    quiet_ms: int = 0
    interval_ms: int = 0
    has_more: bool = False


_NEVER = Asked()


def intervals_between(asked: Asked, interval_ms: int) -> int:
    """Return in how many intervals an object is asked once that has not failed."""
    return max(factor for since, factor in QUIET if asked.quiet_ms >= since * interval_ms)


def due_objects(
    entities: Collection[str], asked: Mapping[str, Asked], now_ms: int, interval_ms: int
) -> tuple[str, ...]:
    """Return the objects to ask now, those that were asked longest ago first.

    One that never was is due. A clock that went back makes nothing wait for more than the interval.
    """
    last = {entity: asked.get(entity, _NEVER) for entity in entities}
    due = [entity for entity, each in last.items() if _is_due(entity, each, now_ms, each.interval_ms or interval_ms)]
    return tuple(sorted(due, key=lambda entity: (last[entity].at_ms, entity)))


def _is_due(entity: str, asked: Asked, now_ms: int, interval_ms: int) -> bool:
    if asked.at_ms > now_ms or asked.has_more:
        return True
    if asked.failures:
        return now_ms - asked.at_ms >= interval_after(interval_ms, asked.failures)
    every = intervals_between(asked, interval_ms)
    # Objects that are asked once in several intervals are spread over them, each always in the same one.
    shift = crc32(entity.encode()) % every
    return (now_ms // interval_ms + shift) // every > (asked.at_ms // interval_ms + shift) // every
