"""Which batch wrote a row last, and which one its record's first version."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.timeline.timeline import Timeline
from sfcdc_assets.timeline.versions import with_batches
from sfcdc_assets_tests.timeline.builders import (
    COLUMNS,
    change,
    everything,
    follow,
    frame,
    new_timeline,
    read,
    read_back,
    snapshot,
    timeline,
)


def batches(rows: pl.DataFrame) -> dict[str, tuple[int | None, int | None]]:
    """Record id -> the batch that wrote its row last, and the one that wrote its first version."""
    return {each["Id"]: (each["_batch"], each["_first_batch"]) for each in rows.to_dicts()}


def first_batch(*changes: dict[str, object]) -> pl.DataFrame:
    made = timeline(*changes)
    return with_batches(new_timeline(COLUMNS, 1).rows, made.rows, 1)


def second_batch(before: pl.DataFrame, made: Timeline) -> dict[str, tuple[int | None, int | None]]:
    return batches(with_batches(before, made.rows, 2))


def test_a_new_version_has_the_number_of_its_batch_and_the_first_one_stays() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")), change("b", 2, "CREATE", **everything("B")))
    assert batches(rows) == {"a": (1, 1), "b": (1, 1)}
    assert second_batch(rows, follow(rows, change("a", 3, Name="X"))) == {"a": (2, 1), "b": (1, 1)}


def test_a_row_that_becomes_suspect_was_written_by_that_batch() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")))
    assert second_batch(rows, follow(rows, change("a", 2, "GAP_UPDATE"))) == {"a": (2, 1)}


def test_a_read_that_finds_a_row_as_it_is_does_not_write_it() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")))
    same = snapshot(Timeline(COLUMNS, rows, 2), 5, read("a", 5, at=1, Name="A"))
    assert second_batch(rows, same) == {"a": (1, 1)}


def test_a_deleted_record_that_is_found_to_be_gone_for_good_is_written() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")), change("a", 2, "DELETE"))
    gone = read_back(Timeline(COLUMNS, rows, 2), read("a", 5))
    assert second_batch(rows, gone) == {"a": (2, 1)}


def test_a_record_of_which_only_the_id_is_known_has_no_first_version_until_it_is_read() -> None:
    rows = first_batch(change("a", 1, "GAP_CREATE"))
    assert batches(rows) == {"a": (1, None)}
    assert second_batch(rows, read_back(Timeline(COLUMNS, rows, 2), read("a", 1, at=1, Name="A"))) == {"a": (2, 2)}


def test_a_row_of_an_earlier_release_keeps_that_its_first_version_is_not_known() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")))
    rows = rows.with_columns(_first_batch=pl.lit(None, pl.Int64))
    assert second_batch(rows, follow(rows, change("a", 3, Name="X"))) == {"a": (2, None)}


def test_a_batch_that_goes_back_writes_what_it_brings_back() -> None:
    rows = first_batch(change("a", 1, "CREATE", **everything("A")))
    later = follow(rows, change("a", 3, Name="X"))
    rows_then = with_batches(rows, later.rows, 2)
    again = Timeline(COLUMNS, rows_then, 3)
    again.roll_back(2, later.superseded)
    again.follow(frame([]))
    assert batches(with_batches(rows_then, again.rows, 3)) == {"a": (3, 1)}
