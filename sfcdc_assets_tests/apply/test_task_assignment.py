"""Work is dealt out to tasks by size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply.task_assignment import partition_keys, task_assignment

_SIZES = st.lists(st.integers(0, 10**9), max_size=60)


@given(_SIZES, st.integers(1, 20))
def test_each_piece_is_in_one_share_and_no_share_is_empty(sizes: list[int], tasks: int) -> None:
    dealt = task_assignment(sizes, tasks)
    assert sorted(piece for share in dealt for piece in share) == list(range(len(sizes)))
    assert len(dealt) == min(tasks, len(sizes))
    assert all(dealt)


@given(_SIZES, st.integers(1, 20))
def test_no_share_has_more_than_another_by_more_than_a_piece_of_its_own(sizes: list[int], tasks: int) -> None:
    loads = [[max(1, sizes[piece]) for piece in share] for share in task_assignment(sizes, tasks)]
    least = min(map(sum, loads), default=0)
    assert all(sum(load) - min(load) <= least for load in loads)


@given(_SIZES, st.integers(1, 20))
def test_shares_with_more_to_do_come_first(sizes: list[int], tasks: int) -> None:
    loads = [sum(max(1, sizes[piece]) for piece in share) for share in task_assignment(sizes, tasks)]
    assert loads == sorted(loads, reverse=True)


def test_a_large_piece_has_a_task_of_its_own() -> None:
    assert task_assignment([1, 1, 100, 1, 1], 2) == [[2], [0, 1, 3, 4]]


def test_every_partition_has_a_key_of_its_own() -> None:
    assert all(len(set(partition_keys(tasks))) == tasks for tasks in range(1, 300))
