"""In which order objects are copied: the small ones first, so that most tables are there soon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

UNKNOWN = float("inf")


def smallest_first(entities: Iterable[str], records: Mapping[str, int], done: Mapping[str, int]) -> list[str]:
    """The entities by what is left of each: `records` (about so many it has, where that is known) less what an
    unfinished copy has of it (`done`). One of unknown size comes after the known ones, unless it was begun; entities
    that are equal keep their order."""

    def left(entity: str) -> float:
        return max(0, records[entity] - done.get(entity, 0)) if entity in records else UNKNOWN

    return sorted(entities, key=lambda entity: (left(entity), entity not in done))
