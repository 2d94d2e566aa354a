"""Key ranges: every Id has one, and files lie in one."""

from __future__ import annotations

import itertools
from collections import Counter

import hypothesis.strategies as st
import polars as pl
from hypothesis import given

from sfcdc_assets.key_ranges import key_ranges as key_ranges_module
from sfcdc_assets.key_ranges.key_ranges import (
    TARGET_BYTES,
    IdRange,
    key_ranges_of_snapshot,
    key_ranges_of_table,
    range_numbers,
    ranges_of_ids,
)

IDS = st.text("ABCabc012", min_size=1, max_size=4)


def test_an_empty_table_is_one_key_range_without_files():
    (key_range,) = key_ranges_of_table([])
    assert (key_range.lower, key_range.upper, key_range.files) == ("", None, ())


@given(st.lists(IDS, min_size=1, max_size=12, unique=True), st.lists(IDS, min_size=1))
def test_every_id_belongs_to_exactly_one_key_range_and_to_the_file_that_holds_it(ids, asked):
    ordered = sorted(ids)
    files = [IdRange(f"{number}", first, first, TARGET_BYTES) for number, first in enumerate(ordered)]
    key_ranges = key_ranges_of_table(files)
    for record_id, number in zip(asked, range_numbers(key_ranges, asked), strict=True):
        key_range = key_ranges[number]
        assert key_range.lower <= record_id
        assert key_range.upper is None or record_id < key_range.upper
    for record_id, number in zip(ordered, range_numbers(key_ranges, ordered), strict=True):
        assert key_ranges[number].files == (str(ordered.index(record_id)),)


@given(st.lists(IDS, max_size=12, unique=True), st.lists(IDS))
def test_the_key_ranges_of_many_ids_are_those_of_each(ids, asked):
    key_ranges = key_ranges_of_table([IdRange(record_id, record_id, record_id) for record_id in ids])
    assert ranges_of_ids(key_ranges, pl.Series(asked, dtype=pl.String)) == set(range_numbers(key_ranges, asked))


@given(st.lists(IDS, max_size=40), st.integers(0, 2_000_000), st.integers(0, 500_000_000))
def test_a_snapshots_key_ranges_cover_all_ids_in_order(sample, rows, size):
    pages = [IdRange("p", min(sample), max(sample))] if sample else []
    key_ranges = key_ranges_of_snapshot(sample, rows, size, pages, [])
    assert key_ranges[0].lower == ""
    assert key_ranges[-1].upper is None
    assert all(one.upper == other.lower for one, other in itertools.pairwise(key_ranges))
    for record_id, number in zip(sample, range_numbers(key_ranges, sample), strict=True):
        assert key_ranges[number].pages == ("p",), record_id


@given(st.lists(IDS, max_size=12, unique=True), st.lists(IDS, max_size=30, unique=True), st.integers(1, 900))
def test_new_records_get_key_ranges_of_their_own_behind_the_files(ids, created, columns):
    files = [IdRange(record_id, record_id, record_id, TARGET_BYTES) for record_id in ids]
    key_ranges = key_ranges_of_table(files, created=created, columns=columns)
    assert (key_ranges[0].lower, key_ranges[-1].upper) == ("", None)
    assert all(one.upper == other.lower for one, other in itertools.pairwise(key_ranges))
    assert [key_range.files for key_range in key_ranges if key_range.files] == [
        (record_id,) for record_id in sorted(ids)
    ]
    new = sorted(record_id for record_id in created if record_id > max(ids, default=""))
    most = max(1, key_ranges_module.CREATED_CELLS // columns // key_ranges_module.SAMPLED)
    shares = Counter(range_numbers(key_ranges, new)).values()
    assert max(shares, default=0) <= most + 1
    assert len(key_ranges) <= max(1, len(ids)) + len(new) // most


@given(
    st.lists(IDS, min_size=1, max_size=12, unique=True),
    st.lists(IDS, max_size=12, unique=True),
    st.integers(1, 12),
)
def test_a_batch_reads_and_writes_the_files_that_may_hold_its_records_and_no_others(ids, asked, neighbours):
    """Of small neighbours, which are one key range."""
    ordered = sorted(ids)
    files = [IdRange(each, each, each, TARGET_BYTES // neighbours) for each in ordered]
    key_ranges = key_ranges_of_table(files)
    assert len(key_ranges) == -(-len(ids) // neighbours)
    numbers = range_numbers(key_ranges, asked)
    for key_range in key_ranges:
        mine = [record_id for record_id, number in zip(asked, numbers, strict=True) if number == key_range.number]
        parts = key_range.parts(pl.Series(mine, dtype=pl.String))
        for record_id in mine:
            (part,) = (
                each for each in parts if each.lower <= record_id and (each.upper is None or record_id < each.upper)
            )
            before = [each for each in key_range.files if each <= record_id]
            assert (before[-1] if before else key_range.files[0]) in part.files
        assert sum(len(part.files) for part in parts) <= len(mine) or len(key_range.files) == 1
        assert all(one.upper is not None and one.upper < other.lower for one, other in itertools.pairwise(parts))
        assert key_range.parts(None) == (key_range,)


def test_files_that_overlap_are_read_as_a_whole():
    files = [IdRange("one", "a", "k"), IdRange("two", "c", "z")]
    (key_range,) = key_ranges_of_table(files)
    assert key_range.parts(pl.Series(["b"])) == (key_range,)
    assert key_range.files == ("one", "two")
