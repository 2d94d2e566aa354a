"""The same work for each of many, some of them at a time."""

from __future__ import annotations

from threading import Barrier

import pytest

from sfcdc_assets.runtime.concurrency import all_side_by_side, side_by_side
from sfcdc_assets_tests.eventually import BOUND_SECONDS


@pytest.mark.parametrize("at_once", [1, 3])
def test_results_come_in_the_order_of_the_work(at_once: int) -> None:
    assert all_side_by_side(lambda number: -number, [3, 1, 2], at_once) == [-3, -1, -2]
    assert all_side_by_side(lambda number: -number, [], at_once) == []


def test_so_many_are_at_work_at_a_time() -> None:
    together = Barrier(3)
    assert all_side_by_side(lambda number: together.wait(BOUND_SECONDS) >= 0 and number, [1, 2, 3], 3) == [1, 2, 3]


@pytest.mark.parametrize("at_once", [1, 3])
def test_what_fails_keeps_no_other_from_being_done(at_once: int) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        if number < 0:
            raise ValueError(number)
        return number

    found = list(side_by_side(work, [1, -2, 3, -4], at_once))
    assert [str(each) for each in found] == ["1", "-2", "3", "-4"]
    with pytest.raises(ValueError, match="-2"):
        all_side_by_side(work, [1, -2, 3, -4], at_once)
    assert sorted(done) == sorted([1, -2, 3, -4] * 2)
