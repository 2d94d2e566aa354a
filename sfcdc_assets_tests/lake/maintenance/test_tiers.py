"""Which files are packed together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.maintenance.pack import FULL_BYTES, OFTEN_TIMES_LARGEST, SMALLEST_BYTES, TIMES_LARGEST, groups

FULL = 1_000
SIZES = st.lists(st.integers(1, 1_200), max_size=60)


@given(SIZES)
def test_groups_lie_side_by_side_and_fit_into_a_full_file(sizes: list[int]) -> None:
    found = groups(sizes, FULL)
    assert [index for each in found for index in each] == sorted({index for each in found for index in each})
    for each in found:
        assert len(each) >= 2
        assert sum(sizes[index] for index in each) <= FULL


@given(SIZES, st.integers(TIMES_LARGEST, OFTEN_TIMES_LARGEST))
def test_a_file_is_packed_only_with_so_many_times_as_much_as_itself(sizes: list[int], times: int) -> None:
    for each in groups(sizes, FULL, times):
        total = sum(sizes[index] for index in each)
        assert all(times * sizes[index] <= total for index in each)


@pytest.mark.parametrize(("times", "least", "most"), [(TIMES_LARGEST, 5.0, 7.0), (OFTEN_TIMES_LARGEST, 1.0, 2.5)])
def test_what_the_cuts_of_a_days_hours_keep_of_an_appended_table(times: int, least: float, most: float) -> None:
    """As many times what lives: every ten minutes files are packed, and each hour's cut keeps those of then."""
    lives, kept, number = list[tuple[int, int]](), dict[int, int](), 0
    for tenth in range(1, 24 * 6 + 1):
        lives += [(number + added, 1_400) for added in range(20)]
        number += 20
        for each in reversed(groups([max(size, SMALLEST_BYTES) for _, size in lives], FULL_BYTES, times)):
            lives[each.start : each.stop] = [(number, sum(lives[index][1] for index in each))]
            number += 1
        if tenth % 6 == 0:
            kept |= dict(lives)
    living = sum(size for _, size in lives)
    assert living == 24 * 6 * 20 * 1_400
    assert least <= sum(kept.values()) / living <= most
    assert len(lives) <= OFTEN_TIMES_LARGEST + 1


def test_a_full_file_is_left_as_it_is() -> None:
    assert groups([1_000, 999, 1_001], FULL) == []
    assert groups([1_000, 10, 10, 1_000], FULL) == [range(1, 3)]


@given(st.lists(st.integers(0, 12), max_size=250))
def test_after_many_nights_few_files_are_left_and_each_row_was_rewritten_seldom(nights: list[int]) -> None:
    """Each night's files are of size 1, and packing loses nothing."""
    sizes: list[int] = []
    rewritten = 0
    for new in nights:
        sizes += [1] * new
        while found := groups(sizes, FULL):
            for each in reversed(found):
                total = sum(sizes[index] for index in each)
                rewritten += total
                sizes[each.start : each.stop] = [total]
    total = sum(nights)
    assert sum(sizes) == total
    assert rewritten <= total * 10
    assert len(sizes) <= 2 * total / FULL + 30
