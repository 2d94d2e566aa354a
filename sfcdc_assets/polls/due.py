"""Which polled objects are due, and in what order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

SLACK = 15
"""Parts of an interval: objects that will be due within one of them are asked along with those that are, in the same
requests, so that a day has one reading a minute and not one a second."""


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
