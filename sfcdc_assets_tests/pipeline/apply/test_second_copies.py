"""Which events of a batch are copies: as if every two of them were compared."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.apply import batch as module
from sfcdc_assets.apply.batch import second_copies

Event = tuple[str, tuple[str, ...]]
EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from(["001", "002"]), max_size=2).map(tuple)), max_size=12
)
_SCHEMA = {"position": pl.Int64, "event_id": pl.String, "record_ids": pl.List(pl.String)}


def frame(events: Sequence[Event], first: int) -> pl.DataFrame:
    rows = [(first + at, event_id, list(ids)) for at, (event_id, ids) in enumerate(events)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


@pytest.mark.parametrize("collide", [False, True])
@given(EVENTS, EVENTS)
def test_an_event_that_was_there_before_is_a_copy_and_no_other(
    collide: bool, older: list[Event], events: list[Event]
) -> None:
    expected = {100 + at for at, event in enumerate(events) if event in older or event in events[:at]}
    with pytest.MonkeyPatch.context() as patch:
        if collide:  # all have the same number
            patch.setattr(module, "_numbers", lambda of: pl.Series("number", [7] * of.height, pl.UInt64))
        assert second_copies(frame(events, 100), frame(older, 0)) == expected
