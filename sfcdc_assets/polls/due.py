"""Which objects are due to be asked, in what order, and how long those that fail are left alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

SLACK = 15
"""Parts of an interval: objects that will be due within one of them are asked along with those that are, in the same
requests, so that a day has one reading a minute and not one a second."""

_MOST_PAUSES = 6


def interval_after(interval_ms: int, failures: int) -> int:
    """Return after how long (ms) an object is asked again that failed so often in a row: an interval, two, four, and so
    on, up to 64."""
    return interval_ms * (1 << min(failures, _MOST_PAUSES))


def due_objects(
    entities: Collection[str], asked_at_ms: Mapping[str, int], now_ms: int, interval_ms: int
) -> tuple[str, ...]:
    """Return the objects to ask now, those that were asked longest ago first; none as long as none is due.

    `asked_at_ms`: when each was last asked (epoch ms by our clock); one that never was is due. A clock that went back
    makes nothing wait for more than the interval.
    """
    last = {entity: asked_at_ms.get(entity, 0) for entity in entities}
    age = {entity: interval_ms if at > now_ms else now_ms - at for entity, at in last.items()}
    if not any(each >= interval_ms for each in age.values()):
        return ()
    soon = [entity for entity in age if age[entity] >= interval_ms - interval_ms // SLACK]
    return tuple(sorted(soon, key=lambda entity: (-age[entity], entity)))
