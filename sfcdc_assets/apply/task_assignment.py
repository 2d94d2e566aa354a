"""Which task of a job does which piece of its work.

A stage is over when its slowest task is, so pieces are dealt out by size, the largest first, each to the task that has
least so far ("longest processing time first", R. L. Graham, 1969), and tasks with more to do get lower numbers, because
Spark starts them in that order. Left to itself Spark deals pieces out by their number or by a hash: of 32 key ranges in
6 tasks one task had nine and another had three.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

_SEED = 42
_TRIES = 1_000


def task_assignment(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """Return the pieces (their indices, in order) of each of at most so many tasks; none without a piece."""
    most = min(tasks, len(sizes))
    dealt: list[list[int]] = [[] for _ in range(most)]
    loads = [(0, task) for task in range(most)]
    # A piece of no size counts all the same, so that each task has one.
    for piece in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        load, task = heapq.heappop(loads)
        dealt[task].append(piece)
        heapq.heappush(loads, (load + max(1, sizes[piece]), task))
    numbered = sorted(loads, key=lambda each: (-each[0], each[1]))
    return [sorted(dealt[task]) for _, task in numbered]


def partition_keys(tasks: int) -> list[int]:
    """Return for each partition of a shuffle by one int column an int that Spark puts there.

    The partition is the hash modulo their number (`HashPartitioning`, which bucketed tables rely on too). Were it
    another one some day, rows would still meet those of their group, and only be dealt out less evenly.
    """
    found: dict[int, int] = {}
    for key in range(_TRIES * tasks):
        found.setdefault(_hash(key) % tasks, key)
        if len(found) == tasks:
            break
    return [found.get(task, task) for task in range(tasks)]


def _hash(value: int) -> int:
    """Spark's hash of an int: Murmur3 for 32 bits, with its seed; signed."""
    mixed = _rotated(value * 0xCC9E2D51, 15) * 0x1B873593 & 0xFFFFFFFF
    found = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    found ^= 4  # its length in bytes
    found = (found ^ found >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    found = (found ^ found >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    found ^= found >> 16
    return found - (found >> 31 << 32)


def _rotated(value: int, by: int) -> int:
    value &= 0xFFFFFFFF
    return (value << by | value >> 32 - by) & 0xFFFFFFFF
