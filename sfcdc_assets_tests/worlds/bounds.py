"""What the small worlds are tried within, and the pieces of it that processes take beside each other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import NamedTuple

from sfcdc_assets_tests.worlds.schedules import schedules
from sfcdc_assets_tests.worlds.stories import Stories, all_stories, in_crowds
from sfcdc_assets_tests.worlds.worlds import run

CROWD = 30_000


class Bound(NamedTuple):
    """How large worlds are: events, readings after the first snapshot, batches that die, and how far a read may be
    ahead of its watermark."""

    length: int
    readings: int
    crashes: int
    ahead: int


BOUNDS = (Bound(1, 2, 1, 1), Bound(2, 1, 1, 1), Bound(3, 1, 0, 1), Bound(2, 2, 0, 1), Bound(3, 1, 1, 1))


class Piece(NamedTuple):
    """Some schedules of a bound, for one crowd of stories."""

    bound: Bound
    crowd: int
    first: int
    count: int


@cache
def _crowds(length: int) -> list[Stories]:
    return list(in_crowds(all_stories(length), CROWD))


def pieces(bounds: Sequence[Bound], count: int) -> Iterator[Piece]:
    """Yield all the work, bound after bound, in pieces of so many schedules."""
    for bound in bounds:
        last = sum(1 for _ in schedules(*bound))
        for first in range(0, last, count):
            yield from (Piece(bound, crowd, first, count) for crowd in range(len(_crowds(bound.length))))


def run_piece(piece: Piece) -> tuple[int, float]:
    """Run one; return how many worlds there were and the seconds of CPU they took."""
    begun = time.process_time()
    wanted = islice(schedules(*piece.bound), piece.first, piece.first + piece.count)
    count = run(_crowds(piece.bound.length)[piece.crowd], wanted)
    return count.worlds, time.process_time() - begun
