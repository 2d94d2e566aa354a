"""Which lines two texts share, fast enough for 100,000 lines: the line-matching half of the emulated org's diffs."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MOST_EDITS = 2_000  # lines removed and inserted between two anchors, beyond which the stretch is replaced whole
_MOST_STEPS = 5_000_000  # comparisons for one pair of texts, beyond which the same is done: a few seconds


@dataclass(frozen=True, slots=True)
class Replacement:
    """Old lines old_start..old_stop give way to new lines new_start..new_stop (from 0, stops excluded)."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


@dataclass(slots=True)
class _Allowance:
    steps: int


def replacements(old: Sequence[str], new: Sequence[str]) -> list[Replacement]:
    """Return the differences of two lists of lines, in order, none touching the next.

    Right always, minimal mostly: stretches of many repeated lines beyond reason are replaced whole.
    """
    merged: list[Replacement] = []
    for part in _differences(old, new):
        if merged and (last := merged[-1]).old_stop == part.old_start and last.new_stop == part.new_start:
            merged[-1] = Replacement(last.old_start, part.old_stop, last.new_start, part.new_stop)
        else:
            merged.append(part)
    return merged


def _differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Replacement]:
    """Stretches between lines that occur once in both texts and keep their order; each then matched by itself."""
    old_at = new_at = 0
    allowance = _Allowance(_MOST_STEPS)
    for old_anchor, new_anchor in [*_anchors(old, new), (len(old), len(new))]:
        yield from _within(old, new, Replacement(old_at, old_anchor, new_at, new_anchor), allowance)
        old_at, new_at = old_anchor, new_anchor  # the anchor itself is trimmed off the next stretch as equal


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest rising run of lines unique in both texts (patience matching)."""
    once_old, once_new = Counter(old), Counter(new)
    place_in_new = {line: index for index, line in enumerate(new) if once_new[line] == 1}
    pairs = [
        (index, place_in_new[line]) for index, line in enumerate(old) if once_old[line] == 1 and line in place_in_new
    ]
    tails: list[int] = []  # new index that ends the best run of each length
    tail_pairs: list[int] = []
    previous: list[int] = []
    for position, (_, new_index) in enumerate(pairs):
        length = bisect_left(tails, new_index)
        previous.append(tail_pairs[length - 1] if length else -1)
        tails[length : length + 1] = [new_index]
        tail_pairs[length : length + 1] = [position]
    run: list[tuple[int, int]] = []
    position = tail_pairs[-1] if tail_pairs else -1
    while position >= 0:
        run.append(pairs[position])
        position = previous[position]
    return run[::-1]


def _within(old: Sequence[str], new: Sequence[str], part: Replacement, allowance: _Allowance) -> Iterator[Replacement]:
    old_start, old_stop, new_start, new_stop = part.old_start, part.old_stop, part.new_start, part.new_stop
    while old_start < old_stop and new_start < new_stop and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_stop and new_start < new_stop and old[old_stop - 1] == new[new_stop - 1]:
        old_stop, new_stop = old_stop - 1, new_stop - 1
    if old_start == old_stop and new_start == new_stop:
        return
    edits = _shortest_edits(old[old_start:old_stop], new[new_start:new_stop], allowance)
    if edits is None:
        yield Replacement(old_start, old_stop, new_start, new_stop)
        return
    for x, next_x, y, next_y in edits:
        yield Replacement(old_start + x, old_start + next_x, new_start + y, new_start + next_y)


def _shortest_edits(
    old: Sequence[str], new: Sequence[str], allowance: _Allowance
) -> list[tuple[int, int, int, int]] | None:
    """Single removals and insertions, in order, by Myers' greedy algorithm (java-diff-utils' own); None beyond it."""
    most = min(len(old) + len(new), _MOST_EDITS)
    furthest = array("q", [0]) * (2 * most + 3)  # furthest old place on diagonal k, at k + most + 1
    rounds: list[array[int]] = []
    for edits in range(most + 1):
        rounds.append(furthest[most + 1 - edits : most + 2 + edits])
        for k in range(-edits, edits + 1, 2):
            x, _ = _step(furthest, k, edits, most + 1)
            start = x
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            furthest[k + most + 1] = x
            allowance.steps -= 1 + x - start
            if x >= len(old) and x - k >= len(new):
                return _walked_back(rounds, k, edits)
        if allowance.steps < 0:
            return None
    return None


def _step(furthest: array[int], k: int, edits: int, middle: int) -> tuple[int, int]:
    """Return where the edit that leads to diagonal k ends, and the diagonal it comes from."""
    if edits == 0:
        return 0, 0
    if k == -edits or (k != edits and furthest[middle + k - 1] < furthest[middle + k + 1]):
        return furthest[middle + k + 1], k + 1
    return furthest[middle + k - 1] + 1, k - 1


def _walked_back(rounds: list[array[int]], k: int, edits: int) -> list[tuple[int, int, int, int]]:
    steps: list[tuple[int, int, int, int]] = []
    for number in range(edits, 0, -1):
        # A round begins with the places its forerunner reached: diagonals -number..number, 0 in the middle.
        reached, came_from = _step(rounds[number], k, number, number)
        before = rounds[number][number + came_from]
        steps.append((before, reached, before - came_from, reached - k))
        k = came_from
    return steps[::-1]
