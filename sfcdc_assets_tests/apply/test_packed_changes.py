"""Changes on their way through a shuffle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply import packed_changes
from sfcdc_assets.apply.job_layout import PACKED_CHANGES, Placement
from sfcdc_assets.apply.packed_changes import packed, unpacked
from sfcdc_assets.timeline.changes import CHANGES

KEYS = (40, 41, 42, 43)
CELLS = st.lists(
    st.fixed_dictionaries(
        {"column": st.integers(0, 9), "s": st.none() | st.text(), "d": st.none(), "l": st.none() | st.integers(0, 9)}
    )
)
CHANGE = st.fixed_dictionaries(
    {
        "key_range": st.integers(-1, 3),
        "record_id": st.none() | st.text(max_size=3),
        "position": st.integers(1, 10**6),
        "cells": st.none() | CELLS,
        "error": st.none() | st.text(max_size=9),
    }
)


def batch(changes: Sequence[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(changes), schema=CHANGES)


def rows_of(batches: Sequence[Sequence[dict[str, object]]]) -> pa.Table:
    placement = Placement(len(KEYS), {5: KEYS})
    return pa.Table.from_batches(packed(placement, 5, map(batch, batches)), PACKED_CHANGES)


def plain(changes: pa.Table) -> Counter[str]:
    return Counter(map(repr, changes.to_pylist()))


@given(st.lists(st.lists(CHANGE, max_size=6), max_size=4))
def test_each_change_comes_out_of_a_value_of_its_own_key_range(batches: list[list[dict[str, object]]]) -> None:
    rows, found = rows_of(batches), Counter[str]()
    for row in range(rows.num_rows):
        changes = unpacked(rows.slice(row, 1))
        assert changes.schema == CHANGES
        (key_range,) = set(changes.column("key_range").to_pylist())
        assert rows["key_range"][row].as_py() == key_range
        assert rows["entity"][row].as_py() == 5
        assert rows["partition_key"][row].as_py() == KEYS[max(0, key_range)]
        found += plain(changes)
    assert found == plain(pa.Table.from_batches(map(batch, batches), CHANGES))


def test_changes_of_many_files_are_gathered_before_they_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [[{"key_range": number % 2, "record_id": f"{number}"} for number in range(10)] for _ in range(6)]
    assert Counter(rows_of(files)["key_range"].to_pylist()) == {0: 1, 1: 1}
    monkeypatch.setattr(packed_changes, "AT_ONCE", 2 * batch(files[0]).nbytes)
    assert Counter(rows_of(files)["key_range"].to_pylist()) == {0: 3, 1: 3}


def test_values_of_several_tasks_come_together() -> None:
    one, other = rows_of([[{"key_range": 2, "record_id": "a"}]]), rows_of([[{"key_range": 2, "record_id": "b"}]])
    assert unpacked(pa.concat_tables([one, other]))["record_id"].to_pylist() == ["a", "b"]
