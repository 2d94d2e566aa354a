"""Tries every state of the model within bounds, and says how one that breaks a guarantee is reached.

States are met in the order of their distance from the first one. What was met is remembered by a hash of 64 bits: of
ten million states two have the same one, and one is passed over, with a probability of three in a million.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from sfcdc_assets_tests.model.guarantees import unfinished, violated
from sfcdc_assets_tests.model.read_steps import consumer_steps, cut_steps, reader_steps
from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import Bounds, World, first
from sfcdc_assets_tests.model.stream_steps import lander_steps, org_steps, stream_steps
from sfcdc_assets_tests.model.table_steps import writer_steps


@dataclass(frozen=True)
class Found:
    """`broken`: the guarantee that does not hold in the last state, or what is left undone in it; None where all
    states are right. `way`: the names of the steps to it. `ends`: states after which nothing can happen."""

    states: int
    steps: int
    ends: int
    depth: int
    seconds: float
    is_whole: bool = False
    """Nothing within the bounds was left out."""
    broken: str | None = None
    way: tuple[str, ...] = ()
    last: World | None = None


def steps(world: World, bounds: Bounds, missing: Rule | None = None) -> Iterator[tuple[str, World]]:
    """Yield what may happen next, and the state after it."""
    yield from org_steps(world, bounds, missing)
    if bounds.landers:
        yield from lander_steps(world, bounds, missing)
    else:
        yield from stream_steps(world, bounds, missing)
    if bounds.writers:
        yield from writer_steps(world, bounds, missing)
    if bounds.reads:
        yield from reader_steps(world, bounds, missing)
    yield from cut_steps(world, bounds, missing)
    yield from consumer_steps(world, bounds, missing)


def check(bounds: Bounds, missing: Rule | None = None, most: int | None = None) -> Found:
    """Try all states within the bounds, or so many; stop at the first that is wrong."""
    began, start = time.process_time(), first(bounds)
    met = {hash(start)}
    now, depth, taken, ends = [start], 0, 0, 0
    while now and (most is None or len(met) < most):
        after: list[World] = []
        for world in now:
            is_end = True
            for _, then in steps(world, bounds, missing):
                taken, is_end = taken + 1, False
                key = hash(then)
                if key in met:
                    continue
                met.add(key)
                broken = violated(then, world, bounds)
                if broken is not None:
                    way = way_to(then, bounds, missing, depth + 1)
                    return Found(
                        len(met), taken, ends, depth + 1, time.process_time() - began, False, broken, way, then
                    )
                after.append(then)
            if is_end:
                ends += 1
                broken = unfinished(world, bounds)
                if broken is not None:
                    way = way_to(world, bounds, missing, depth)
                    return Found(len(met), taken, ends, depth, time.process_time() - began, False, broken, way, world)
        now, depth = after, depth + 1
    return Found(len(met), taken, ends, depth, time.process_time() - began, not now)


def way_to(wanted: World, bounds: Bounds, missing: Rule | None, depth: int) -> tuple[str, ...]:
    """Return the names of the steps to a state at this distance: the search is made once more, with memory of where
    each state came from, which the first one has no room for."""
    start = first(bounds)
    came: dict[World, tuple[World, str] | None] = {start: None}
    now = [start]
    for _ in range(depth):
        after: list[World] = []
        for world in now:
            for name, then in steps(world, bounds, missing):
                if then not in came:
                    came[then] = (world, name)
                    after.append(then)
        now = after
        if wanted in came:
            break
    way: list[str] = []
    here = came[wanted]
    while here is not None:
        way.append(here[1])
        here = came[here[0]]
    return tuple(reversed(way))
