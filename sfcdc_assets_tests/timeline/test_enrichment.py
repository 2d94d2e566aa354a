"""Claims of enriched events against a key range's rows: what is drift, and what a later event explains."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.timeline.timeline import Timeline
from sfcdc_assets_tests.timeline import builders
from sfcdc_assets_tests.timeline.builders import follow, row, suspects, timeline

COLUMNS = (
    Column("Id", ColumnType.STRING),
    Column("Text", ColumnType.STRING),
    Column("Number", ColumnType.DOUBLE),
    Column("Whole", ColumnType.INT),
    Column("Flag", ColumnType.BOOLEAN),
    Column("Day", ColumnType.DATE),
    Column("Moment", ColumnType.TIMESTAMP),
)
START = {"Text": "a", "Number": 0.5, "Whole": 7, "Flag": True, "Day": 100, "Moment": 1_000_000}
OTHER = {"Text": "b", "Number": 0.25, "Whole": 8, "Flag": False, "Day": 101, "Moment": 1_000_001}


def change(position, change_type="UPDATE", values=None, enriched=None, record_id="a"):
    return builders.change(record_id, position, change_type, enriched=enriched, columns=COLUMNS, **(values or {}))


def run(base, *changes) -> Timeline:
    return follow(base, *changes, columns=COLUMNS)


@pytest.fixture
def base() -> pl.DataFrame:
    return timeline(change(1, "CREATE", START), columns=COLUMNS).rows


def test_an_enriched_value_that_says_what_the_row_has_is_no_entry_whatever_its_type(base):
    merged = run(base, change(2, values={"Text": "c"}, enriched={n: v for n, v in START.items() if n != "Text"}))
    assert suspects(merged) == {}
    assert (row(merged)["Text"], row(merged)["_in_doubt"]) == ("c", False)


@pytest.mark.parametrize("field", list(START))
def test_an_enriched_value_that_says_something_else_is_drift_and_is_not_applied(base, field):
    merged = run(base, change(2, values={} if field == "Text" else {"Text": "c"}, enriched={field: OTHER[field]}))
    assert suspects(merged) == {"a": ("drift", 2)}
    assert row(merged)[field] == base.to_dicts()[0][field]
    assert not row(merged)["_in_doubt"], "as where an audit finds drift, only a read ends the entry"
    assert field not in row(merged)["_certain_fields"]


def test_the_change_itself_is_applied_and_the_detail_names_the_fields_but_no_value(base):
    merged = run(base, change(2, values={"Text": "c"}, enriched={"Whole": 8_412, "Flag": False, "Number": 0.5}))
    assert (row(merged)["Text"], row(merged)["_position"]) == ("c", 2)
    (reported,) = merged.suspects
    assert reported.detail.startswith("Flag, Whole: ")
    assert "8412" not in reported.detail
    assert merged.counts.waiting == 0


def test_an_enriched_value_is_compared_with_what_the_batch_made_of_the_record_until_then(base):
    merged = run(base, change(2, values={"Text": "b"}), change(3, values={"Flag": False}, enriched={"Text": "b"}))
    assert suspects(merged) == {}
    merged = run(base, change(2, values={"Text": "b"}), change(3, values={"Flag": False}, enriched={"Text": "a"}))
    assert suspects(merged) == {"a": ("drift", 3)}


def test_an_enriched_value_that_is_newer_than_its_event_is_explained_by_the_later_one(base):
    later = change(3, values={"Text": "b"}), change(4, values={"Text": "c"})
    for value in ("a", "b", "c"):
        assert suspects(run(base, change(2, values={"Flag": False}, enriched={"Text": value}), *later)) == {}
    merged = run(base, change(2, values={"Flag": False}, enriched={"Text": "d"}), *later)
    assert suspects(merged) == {"a": ("drift", 2)}
    assert (row(merged)["Text"], row(merged)["_position"]) == ("c", 4)


def test_a_change_of_another_record_explains_nothing(base):
    merged = run(
        base,
        change(2, values={"Flag": False}, enriched={"Text": "b"}),
        change(3, "CREATE", {**START, "Text": "b"}, record_id="b"),
    )
    assert suspects(merged) == {"a": ("drift", 2)}


def test_a_delete_is_checked_by_its_last_values(base):
    merged = run(base, change(2, "DELETE", enriched={"Text": "a"}))
    assert (suspects(merged), row(merged)["_is_deleted"]) == ({}, True)
    merged = run(base, change(2, "DELETE", enriched={"Text": "b"}))
    assert (suspects(merged), row(merged)["_is_deleted"]) == ({"a": ("drift", 2)}, True)


def test_a_value_where_the_row_has_null_is_drift(base):
    emptied = run(base, change(2, values={"Text": None})).rows
    assert suspects(run(emptied, change(3, values={"Flag": False}, enriched={"Text": "a"}))) == {"a": ("drift", 3)}


def test_a_suspect_record_and_one_that_becomes_suspect_anyway_get_no_further_entry(base):
    claim = change(2, values={"Flag": False}, enriched={"Text": "b"})
    held = run(base, change(2, "GAP_UPDATE")).rows
    assert suspects(run(held, {**claim, "position": 3})) == {}
    assert suspects(run(base, claim, change(3, "GAP_UPDATE"))) == {"a": ("GAP_UPDATE", 3)}


def test_what_the_row_already_stands_for_is_not_compared(base):
    read_later = base.with_columns(pl.lit(5, pl.Int64).alias("_position"))
    assert suspects(run(read_later, change(4, values={"Flag": False}, enriched={"Text": "b"}))) == {}


def test_a_row_that_was_read_after_the_event_may_know_more_than_the_event(base):
    """A read has its watermark before it is made, so events that are in it already are applied on top of it."""
    ahead = base.with_columns(
        pl.lit("c").alias("Text"),
        pl.lit(None, pl.String).alias("_transaction_key"),
        pl.lit(3_000_000).cast(pl.Datetime("us", "UTC")).alias("_commit_timestamp"),
    )
    seen = change(2, values={"Flag": False}, enriched={"Text": "b"}), change(3, values={"Text": "c"})
    assert suspects(run(ahead, *seen)) == {}
    assert suspects(run(ahead, *seen, change(4, values={"Flag": True}, enriched={"Text": "b"}))) == {"a": ("drift", 4)}


@given(
    values=st.lists(st.sampled_from(["x", "y", "z", None]), min_size=1, max_size=6),
    data=st.data(),
)
def test_an_enriched_value_read_at_any_time_after_its_event_never_is_drift(values, data):
    """The org's own order: each event enriched values what the field holds when it is delivered, now or later."""
    base = timeline(change(1, "CREATE", {**START, "Text": "x"}), columns=COLUMNS).rows
    held = ["x"]
    for value in values:
        held.append(value if data.draw(st.booleans()) else held[-1])
    changes = []
    for number in range(1, len(held)):
        moved = held[number] != held[number - 1]
        delivered = data.draw(st.integers(min_value=number, max_value=len(held) - 1))
        enriched = {} if moved or held[delivered] is None else {"Text": held[delivered]}
        changes.append(
            change(number + 1, values={"Text": held[number]} if moved else {"Flag": True}, enriched=enriched)
        )
    assert suspects(run(base, *changes)) == {}
