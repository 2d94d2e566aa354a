"""Which changes can be applied, which records come into doubt, and how reads end it."""

from __future__ import annotations

import datetime as dt
import hashlib

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, ColumnType
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.state.baseline import READ_COLUMNS, apply_reads, baseline, read_schema
from sfcdc_assets.state.changes import CHANGES, UNDECODABLE, names_one_record
from sfcdc_assets.state.columns import current_state_schema
from sfcdc_assets.state.merge import empty_rows, merge
from sfcdc_assets.state.text_fields import texts_of_changes, texts_of_reads

COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Description", ColumnType.STRING, True, "textarea"),
    Column("LastModifiedById", ColumnType.STRING, False, "reference"),
)
SCHEMA = current_state_schema(COLUMNS)


def change(record_id, position, change_type, diffs=(), untold=None, **values):
    names = [column.name for column in COLUMNS]
    return {
        "leaf": 0,
        "record_id": record_id,
        "position": position,
        "change_type": change_type,
        "commit_timestamp": position * 1_000_000,
        "commit_user": "u",
        "transaction_key": f"t{position}",
        "cells": [{"column": names.index(name), "s": value, "d": None, "l": None} for name, value in values.items()],
        "diff_columns": [names.index(name) for name in diffs],
        "error": "garbled" if change_type == UNDECODABLE else None,
        "untold": untold,
    }


def run(base, *changes, columns=COLUMNS):
    return merge(base, pl.DataFrame(pa.Table.from_pylist(list(changes), schema=CHANGES)), columns)


def row(merged, record_id="a"):
    return next(each for each in merged.rows.to_dicts() if each["Id"] == record_id)


def doubts(merged):
    return {each["record_id"]: (each["reason"], each["position"]) for each in merged.resolved.doubts.to_dicts()}


def diff(before, after):
    """A diff that replaces all of `before`."""
    old, new = before.split("\n"), after.split("\n")
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    head = f"--- \n+++ {hashlib.sha256(after.encode()).hexdigest()}\n@@ -1,{len(old)} +1,{len(new)} @@\n"
    return head + "\n".join(lines)


def with_row(text="one\ntwo"):
    return run(empty_rows(SCHEMA), change("a", 1, "CREATE", Name="n", Description=text, LastModifiedById=None)).rows


def test_a_chain_of_diffs_in_one_batch_is_rebuilt_value_by_value():
    merged = run(
        with_row("one\ntwo"),
        change("a", 2, "UPDATE", ["Description"], Description=diff("one\ntwo", "one\n2")),
        change("a", 3, "UPDATE", ["Description"], Description=diff("one\n2", "1\n2\n3")),
    )
    assert row(merged)["Description"] == "1\n2\n3"
    texts = texts_of_changes(merged.resolved.changes, merged.resolved.rebuilt, COLUMNS).to_dicts()
    assert [(each["position"], each["value"], each["origin"]) for each in texts] == [
        (2, "one\n2", "diff"),
        (3, "1\n2\n3", "diff"),
    ]
    assert texts[0]["sha256"] == hashlib.sha256(b"one\n2").hexdigest()


def test_an_object_without_large_texts_gives_no_texts_by_events_and_by_reads_in_one_batch():
    columns = COLUMNS[:2]
    merged = run(empty_rows(current_state_schema(columns)), change("a", 1, "CREATE", Name="n"), columns=columns)
    of_changes = texts_of_changes(merged.resolved.changes, merged.resolved.rebuilt, columns)
    of_reads = texts_of_reads(empty_rows(read_schema(columns)), columns, "snapshot", merged.rows)
    assert pl.concat([of_reads, of_changes]).is_empty()


def test_a_diff_to_a_text_of_which_only_the_hash_is_known_is_a_doubt_even_after_its_full_value():
    key = HashKey.of("key")
    columns = tuple(column.hashed(key) if column.large_text else column for column in COLUMNS)
    merged = run(
        with_row(key.digest("one")),
        change("a", 2, "UPDATE", Description=key.digest("two")),
        change("a", 3, "UPDATE", ["Description"], Description=key.digest(diff("two", "three"))),
        change("a", 4, "UPDATE", Name="waits"),
        columns=columns,
    )
    assert doubts(merged) == {"a": ("hashed_diff", 3)}
    assert merged.resolved.doubts["detail"].to_list() == ["Description: a diff cannot be applied to a hash"]
    assert (row(merged)["Description"], row(merged)["Name"]) == (key.digest("two"), "n")
    assert merged.resolved.waiting == 1
    assert texts_of_changes(merged.resolved.changes, merged.resolved.rebuilt, columns).is_empty()


def test_a_full_value_in_the_batch_is_the_base_of_the_diff_after_it():
    merged = run(
        with_row("something else"),
        change("a", 2, "UPDATE", Description="one\ntwo"),
        change("a", 3, "UPDATE", ["Description"], Description=diff("one\ntwo", "three")),
    )
    assert row(merged)["Description"] == "three"


def test_an_unproven_diff_holds_the_record_at_what_was_known_before_it():
    wrong_base = diff("not what is there", "new")
    merged = run(
        with_row(),
        change("a", 2, "UPDATE", Name="applied"),
        change("a", 3, "UPDATE", ["Description"], Description=wrong_base, Name="with the diff"),
        change("a", 4, "UPDATE", Name="waits"),
    )
    assert doubts(merged) == {"a": ("unproven_diff", 3)}
    held = row(merged)
    assert (held["Name"], held["Description"], held["_in_doubt"], held["_position"]) == ("applied", "one\ntwo", True, 2)
    assert merged.counts.waiting == 1


def test_a_diff_without_a_value_before_it_is_baseless():
    merged = run(with_row(None), change("a", 2, "UPDATE", ["Description"], Description=diff("x", "y")))
    assert doubts(merged) == {"a": ("baseless_diff", 2)}


def test_a_diff_that_is_none_and_a_hash_of_the_wrong_length_are_doubts_not_values():
    for text in (
        "no diff at all",
        "--- \n+++ abc\n@@ -1,1 +1,1 @@\n-one\n+uno",
        "--- \n+++ \n@@ -99,1 +99,1 @@\n-x\n+y",
    ):
        merged = run(with_row(), change("a", 2, "UPDATE", ["Description"], Description=text))
        assert doubts(merged) == {"a": ("unproven_diff", 2)}
        assert row(merged)["Description"] == "one\ntwo"


def test_an_undecodable_body_holds_its_record_and_no_other():
    merged = run(with_row(), change("a", 2, UNDECODABLE), change("b", 3, "CREATE", Name="flows"))
    assert doubts(merged) == {"a": ("undecodable_payload", 2)}
    assert row(merged, "b")["Name"] == "flows"


def test_a_change_that_does_not_tell_all_is_applied_with_those_after_it_and_opens_a_doubt():
    merged = run(
        with_row(),
        change("a", 2, "UPDATE", untold="Whole", Name="told"),
        change("a", 3, "UPDATE", Description="after it"),
        change("a", 4, "UPDATE", untold="again"),
        change("b", 5, "CREATE", untold="Whole", Name="new"),
    )
    assert doubts(merged) == {"a": ("untold_value", 2), "b": ("untold_value", 5)}
    held = row(merged)
    assert (held["Name"], held["Description"], held["_in_doubt"], held["_position"]) == ("told", "after it", True, 4)
    assert row(merged, "b")["Name"] == "new"
    assert merged.counts.waiting == 0
    later = run(merged.rows, change("a", 6, "UPDATE", Name="waits"))
    assert (later.counts.waiting, row(later)["Name"], doubts(later)) == (1, "told", {})


def test_of_two_doubts_the_one_that_holds_back_counts():
    merged = run(
        with_row(),
        change("a", 2, "UPDATE", untold="Whole", Name="told"),
        change("a", 3, "GAP_UPDATE"),
        change("a", 4, "UPDATE", untold="never looked at", Name="waits"),
    )
    assert doubts(merged) == {"a": ("GAP_UPDATE", 3)}
    held = row(merged)
    assert (held["Name"], held["_in_doubt"], held["_position"], merged.counts.waiting) == ("told", True, 2, 1)


def test_an_unknown_record_is_held_but_one_created_in_the_batch_is_not_unknown():
    merged = run(
        with_row(),
        change("x", 2, "UPDATE", Name="?"),
        change("y", 3, "CREATE", Name="c"),
        change("y", 4, "UPDATE", Name="u"),
    )
    assert doubts(merged) == {"x": ("unknown_record", 2)}
    assert row(merged, "x")["_in_doubt"] is True
    assert row(merged, "y")["Name"] == "u"


def test_a_change_type_that_is_not_documented_is_a_doubt():
    merged = run(with_row(), change("a", 2, "UNKNOWN"), change("b", 3, "SNAPSHOT"))
    assert doubts(merged) == {"a": ("unknown_change_type", 2), "b": ("unknown_change_type", 3)}


def test_ids_that_speak_of_the_entity_are_told_from_records():
    assert names_one_record("001Dp00000JJkkHIAT")
    for spoken in ("001*", "000000000000000AAA", "00000000000000AAA"):
        assert not names_one_record(spoken)


MODIFIED = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def reads(*rows):
    defaults = {"_is_deleted": False, "_system_modstamp": MODIFIED, "_master_record_id": None}
    schema = pa.schema([(column.name, pa.string()) for column in COLUMNS])
    table = pa.Table.from_pylist([{**defaults, **each} for each in rows], schema=pa.schema([*schema, *READ_COLUMNS]))
    return pl.DataFrame(table)


def test_a_read_ends_the_doubt_and_events_after_its_pin_go_on_top():
    held = run(with_row(), change("a", 2, "GAP_UPDATE"), change("a", 5, "UPDATE", Name="waits")).rows
    healed = apply_reads(held, reads({"Id": "a", "Name": "read", "Description": "d", "_position": 4}))
    assert (healed["Name"][0], healed["_in_doubt"][0], healed["_position"][0]) == ("read", False, 4)
    after = run(healed, change("a", 3, "UPDATE", Name="before the pin"), change("a", 5, "UPDATE", Name="after"))
    assert row(after)["Name"] == "after"


def test_what_became_of_a_record_that_is_not_there_is_told_apart():
    base = run(empty_rows(SCHEMA), *[change(name, 1, "CREATE", Name=name, Description="kept") for name in "abc"]).rows
    after = apply_reads(
        base,
        reads(
            {"Id": "a", "_is_deleted": True, "_system_modstamp": None, "_position": 3},
            {"Id": "b", "_is_deleted": True, "_position": 3},
            {"Id": "c", "_is_deleted": True, "_master_record_id": "a", "_position": 3},
        ),
    )
    told = {each["Id"]: (each["_is_deleted"], each["_deleted_reason"]) for each in after.to_dicts()}
    assert told == {"a": (True, "hard_deleted"), "b": (True, "deleted"), "c": (True, "merged")}
    assert after.filter(pl.col("Id") == "a")["Description"][0] == "kept"


def test_a_read_older_than_its_row_is_left_out_unless_the_row_is_in_doubt():
    base = run(empty_rows(SCHEMA), change("a", 9, "CREATE", Name="newer")).rows
    assert apply_reads(base, reads({"Id": "a", "Name": "old", "_position": 5}))["Name"][0] == "newer"


def test_a_snapshot_takes_the_place_of_the_rows_and_finds_hard_deletes():
    base = run(
        empty_rows(SCHEMA),
        change("a", 1, "CREATE", Name="a"),
        change("b", 2, "CREATE", Name="b"),
        change("new", 9, "CREATE", Name="after the pin"),
        change("held", 3, "UPDATE", Name="?"),
    ).rows
    after = baseline(base, reads({"Id": "a", "Name": "snapshot", "_position": 5}), 5)
    told = {each["Id"]: each for each in after.to_dicts()}
    assert (told["a"]["Name"], told["a"]["_position"]) == ("snapshot", 5)
    assert (told["b"]["_deleted_reason"], told["b"]["_position"]) == ("hard_deleted", 5)
    assert (told["new"]["Name"], told["new"]["_is_deleted"], told["new"]["_position"]) == ("after the pin", False, 9)
    assert (told["held"]["_deleted_reason"], told["held"]["_in_doubt"]) == ("hard_deleted", False)
