"""Which files are packed together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.lake.maintenance.pack import groups

FULL = 1_000
SIZES = st.lists(st.integers(1, 1_200), max_size=60)


@given(SIZES)
def test_groups_lie_side_by_side_and_fit_into_a_full_file(sizes: list[int]) -> None:
    found = groups(sizes, FULL)
    assert [index for each in found for index in each] == sorted({index for each in found for index in each})
    for each in found:
        assert len(each) >= 2
        assert sum(sizes[index] for index in each) <= FULL


@given(SIZES)
def test_a_file_is_packed_only_with_as_much_as_itself(sizes: list[int]) -> None:
    for each in groups(sizes, FULL):
        total = sum(sizes[index] for index in each)
        assert all(2 * sizes[index] <= total for index in each)


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
