"""Whose turn it is in the rolling audit: months of looks, as the rule alone deals them out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from sfcdc_assets.reconciliation.audit_turns import DAY_MS, days_for_all, whose_turn

LOOKS_A_DAY = 37
"""With some 150 requests a day."""


@dataclass
class Looks:
    """What was looked at when, in days: entity -> the times of its windows, and of the ends of its passes."""

    windows: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    passes: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def longest_wait(self, entity: str, days: float) -> float:
        times = [0.0, *self.windows[entity], days]
        return max(later - earlier for earlier, later in pairwise(times))


def looks_of(sizes: Mapping[str, int], days: int) -> Looks:
    """`sizes`: how many windows each entity has."""
    looks, ended, windows, up_to = Looks(), dict[str, int](), dict[str, int](), dict.fromkeys(sizes, 0)
    for number in range(days * LOOKS_A_DAY):
        now = DAY_MS + number * DAY_MS // LOOKS_A_DAY
        entity = whose_turn(sizes, ended, windows, now)
        windows.pop(entity, None)
        windows[entity] = now
        looks.windows[entity].append(now / DAY_MS - 1)
        up_to[entity] = (up_to[entity] + 1) % sizes[entity]
        if not up_to[entity]:
            ended[entity] = now
            looks.passes[entity].append(now / DAY_MS - 1)
    return looks


SMALL = {f"Small{number:02}": 1 for number in range(30)}


def test_an_entity_of_eight_million_records_keeps_no_small_one_from_being_compared_for_days() -> None:
    looks = looks_of({"Huge": 5_300} | SMALL, 400)
    assert max(looks.longest_wait(entity, 400) for entity in SMALL) < 3


@pytest.mark.parametrize("sizes", [{"Huge": 5_300} | SMALL, {"Huge": 5_300, "Small": 1}, {"Huge": 5_300}])
def test_the_pass_over_a_large_entity_ends_within_the_days_that_are_reported(sizes: dict[str, int]) -> None:
    at_most = days_for_all(list(sizes.values()), LOOKS_A_DAY)
    looks = looks_of(sizes, round(at_most) + 1)
    assert looks.passes["Huge"][0] <= at_most + 0.1
    assert at_most <= 2 * sum(sizes.values()) / LOOKS_A_DAY + 1


def test_one_small_entity_beside_a_large_one_takes_a_look_a_day_of_it_and_not_each_other() -> None:
    looks = looks_of({"Huge": 5_300, "Small": 1}, 100)
    assert len(looks.windows["Small"]) <= 101


def test_of_two_large_entities_neither_keeps_the_other_from_a_whole_pass() -> None:
    sizes = {"Huge": 2_000, "Vast": 3_000} | SMALL
    looks = looks_of(sizes, round(days_for_all(list(sizes.values()), LOOKS_A_DAY)) + 1)
    assert looks.passes["Huge"]
    assert looks.passes["Vast"]
    assert max(looks.longest_wait(entity, 0) for entity in SMALL) < 3


def test_entities_of_one_window_each_have_their_turns_one_after_the_other() -> None:
    sizes = {f"Small{number:04}": 1 for number in range(2_000)}
    looks = looks_of(sizes, 120)
    assert {len(looks.windows[entity]) for entity in sizes} == {2, 3}
    assert days_for_all([1] * 2_000, LOOKS_A_DAY) == pytest.approx(2_000 / LOOKS_A_DAY)
