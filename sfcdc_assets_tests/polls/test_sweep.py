"""Deletes that are found by counting: all of them, at a cost that follows them and not the object's size."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sfcdc_assets.polls import sweep as sweep_module
from sfcdc_assets.polls.sweep import LISTED, PARTS, Ids, Sweep
from sfcdc_assets.snapshot.soql import IdWindow


def record_id(number: int) -> str:
    return f"001{number:015d}"


def ids(table: list[str]) -> Ids:
    return np.array(table, np.bytes_)


def swept(table: list[str], org: set[str]) -> tuple[set[str], set[str], int]:
    """What a sweep finds: Ids that only the table has, those that only the org has, and the requests it takes."""
    sweep, requests = Sweep(ids(table)), 0
    only_here: set[str] = set()
    only_there: set[str] = set()
    while not sweep.is_over:
        windows = sweep.to_count(PARTS)
        if windows:
            requests += 1
            sweep.counted({window: sum(map(window.has, org)) for window in windows})
        window = sweep.to_list()
        if window is not None:
            requests += 1
            theirs, ours = {each for each in org if window.has(each)}, {each.decode() for each in sweep.ids_in(window)}
            only_here |= ours - theirs
            only_there |= theirs - ours
    return only_here, only_there, requests


@given(
    size=st.integers(0, 3 * LISTED),
    deleted=st.sets(st.integers(0, 3 * LISTED), max_size=20),
)
@example(size=0, deleted=set())
def test_every_delete_is_found(size: int, deleted: set[int]) -> None:
    table = [record_id(number) for number in range(size)]
    org = {each for number, each in enumerate(table) if number not in deleted}
    found, missing, _ = swept(table, org)
    assert found == set(table) - org
    assert missing == set()


def test_a_million_records_without_a_delete_cost_one_request() -> None:
    table = [record_id(number) for number in range(1_000_000)]
    sweep = Sweep(ids(table))
    assert sweep.to_count(PARTS) == (IdWindow(),)
    sweep.counted({IdWindow(): 1_000_000})
    assert sweep.is_over


def test_more_records_than_an_org_counts_at_once_are_counted_by_ranges_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "COUNTED", 1_000)  # it is two million: an org gives up on tens of millions
    table = [record_id(number) for number in range(4_500)]
    sweep = Sweep(ids(table))
    windows = sweep.to_count(PARTS)
    assert [len(sweep.ids_in(window)) for window in windows] == [900] * 5
    sweep.counted(dict.fromkeys(windows, 900))
    assert sweep.is_over, "in one request, as each is a query of its own"


def test_one_delete_among_a_hundred_thousand_costs_a_handful() -> None:
    table = [record_id(number) for number in range(100_000)]
    found, _, requests = swept(table, set(table) - {record_id(77_777)})
    assert found == {record_id(77_777)}
    assert requests <= 6


def test_a_record_that_only_the_org_has_is_found_as_well() -> None:
    table = [record_id(number) for number in range(10)]
    assert swept(table, {*table, record_id(99)})[:2] == (set(), {record_id(99)})


def test_ids_of_any_length_are_counted_by_ranges() -> None:
    table = sorted(f"Object_{number}__c" for number in range(3 * LISTED))
    found, missing, _ = swept(table, set(table) - {"Object_77__c"})
    assert (found, missing) == ({"Object_77__c"}, set())


def test_what_the_org_says_was_deleted_is_not_looked_for_any_more() -> None:
    table = [record_id(number) for number in range(50_000)]
    sweep = Sweep(ids(table))
    [window] = sweep.to_count(PARTS)
    assert not sweep.differs
    sweep.counted({window: 49_998})
    assert sweep.differs
    assert sweep.has(record_id(7))
    assert sweep.without([record_id(7), record_id(8), record_id(99_999)]) == 2
    assert not sweep.has(record_id(7))
    assert sweep.to_count(PARTS) == (IdWindow(),)
    sweep.counted({IdWindow(): 49_998})
    assert sweep.is_over


@given(size=st.integers(0, 30), gone=st.sets(st.integers(0, 40)))
def test_those_that_are_gone_are_left_out_and_no_others(size: int, gone: set[int]) -> None:
    table = [record_id(number) for number in range(size)]
    sweep = Sweep(ids(table))
    left = [each for number, each in enumerate(table) if number not in gone]
    assert sweep.without([record_id(number) for number in gone]) == size - len(left)
    assert [each.decode() for each in sweep.ids_in(IdWindow())] == left


def test_leaving_out_those_that_are_gone_copies_the_ids_once() -> None:
    sweep = Sweep(np.arange(10**17, 10**17 + 500_000).astype("S18"))
    tracemalloc.start()
    try:
        assert sweep.without([f"{10**17 + number}" for number in range(100)]) == 100
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 18 * 500_000
    finally:
        tracemalloc.stop()
