"""Of a backlog a task follows some records after others."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply.key_range_task import followed_at_once
from sfcdc_assets.key_ranges.key_ranges import KeyRange

IDS = st.sampled_from([f"{letter}{digit}" for letter in "fghm" for digit in range(10)])
RANGES = st.sampled_from([KeyRange(0, "", None), KeyRange(3, "f0", "n"), KeyRange(4, "f", None)])


@given(RANGES, st.lists(IDS, max_size=60), st.integers(1, 20))
def test_each_record_lies_in_one_part_and_few_parts_have_more_changes_than_are_wanted(
    key_range: KeyRange, record_ids: list[str], most: int
) -> None:
    parts = followed_at_once(key_range, pl.Series(record_ids, dtype=pl.String), most)
    assert (parts[0].lower, parts[-1].upper) == (key_range.lower, key_range.upper)
    assert all(part.upper == following.lower for part, following in pairwise(parts))
    assert all(part.upper is None or part.lower < part.upper for part in parts)
    changes = Counter(record_ids)
    for part in parts:
        of_part = {each for each in changes if part.lower <= each and (part.upper is None or each < part.upper)}
        assert sum(changes[each] for each in of_part) <= most + max((changes[each] for each in of_part), default=0)


def test_few_changes_are_followed_in_one_part() -> None:
    key_range = KeyRange(2, "f", "g", files=("a",))
    assert followed_at_once(key_range, pl.Series(["f3", "f1", "f1"]), 3) == [key_range]
