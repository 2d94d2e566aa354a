"""Which changes can be applied, and which records become suspect."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest

from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.timeline.changes import UNDECODABLE, names_one_record
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.text_values import texts_of_reads
from sfcdc_assets.timeline.timeline import Timeline
from sfcdc_assets_tests.timeline.builders import COLUMNS, change, follow, read, read_back, row, suspects, timeline


def diff(before: str, after: str) -> str:
    """A diff that replaces all of `before`."""
    old, new = before.split("\n"), after.split("\n")
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    head = f"--- \n+++ {hashlib.sha256(after.encode()).hexdigest()}\n@@ -1,{len(old)} +1,{len(new)} @@\n"
    return head + "\n".join(lines)


def with_row(text: str | None = "one\ntwo") -> pl.DataFrame:
    return timeline(change("a", 1, "CREATE", Name="n", Description=text)).rows


def texts(of: Timeline) -> list[dict]:
    return of.new_texts.sort("position").to_dicts()


def test_a_chain_of_diffs_in_one_batch_is_rebuilt_value_by_value() -> None:
    after = follow(
        with_row("one\ntwo"),
        change("a", 2, diffs=["Description"], Description=diff("one\ntwo", "one\n2")),
        change("a", 3, diffs=["Description"], Description=diff("one\n2", "1\n2\n3")),
    )
    assert row(after)["Description"] == "1\n2\n3"
    found = texts(after)
    assert [(each["position"], each["value"], each["origin"]) for each in found] == [
        (2, "one\n2", "diff"),
        (3, "1\n2\n3", "diff"),
    ]
    assert found[0]["sha256"] == hashlib.sha256(b"one\n2").hexdigest()


def test_a_diff_that_leaves_nothing_gives_null_as_rest_has_it_and_the_next_one_has_an_empty_base() -> None:
    emptied = diff("one\ntwo", "").removesuffix("+").replace("+1,1", "+0,0")
    changes = [
        change("a", 2, diffs=["Description"], Description=emptied),
        change("a", 3, diffs=["Description"], Description=diff("", "again")),
    ]
    after = follow(with_row("one\ntwo"), changes[0])
    assert (row(after)["Description"], row(after)["_in_doubt"], suspects(after)) == (None, False, {})
    assert [each["value"] for each in texts(after)] == [None]
    assert row(follow(with_row("one\ntwo"), *changes))["Description"] == "again", "in the same batch"


def test_an_object_without_large_texts_gives_no_texts_by_events_and_by_reads_in_one_batch() -> None:
    columns = COLUMNS[:2]
    after = timeline(change("a", 1, "CREATE", Name="n", columns=columns), columns=columns)
    of_reads = texts_of_reads(empty_rows(read_schema(columns)), columns, "snapshot", after.rows)
    assert pl.concat([of_reads, after.new_texts]).is_empty()


def test_a_diff_to_a_text_of_which_only_the_hash_is_known_is_an_entry_even_after_its_full_value() -> None:
    key = HashKey.of("key")
    columns = tuple(column.hashed(key) if column.large_text else column for column in COLUMNS)
    after = follow(
        with_row(key.digest("one")),
        change("a", 2, "UPDATE", Description=key.digest("two")),
        change("a", 3, diffs=["Description"], Description=key.digest(diff("two", "three"))),
        change("a", 4, "UPDATE", Name="waits"),
        columns=columns,
    )
    assert suspects(after) == {"a": ("hashed_diff", 3)}
    assert [each.detail for each in after.suspects] == ["Description: a diff cannot be applied to a hash"]
    assert (row(after)["Description"], row(after)["Name"]) == (key.digest("two"), "n")
    assert after.counts.waiting == 1
    assert not texts(after)


def test_a_full_value_in_the_batch_is_the_base_of_the_diff_after_it() -> None:
    after = follow(
        with_row("something else"),
        change("a", 2, "UPDATE", Description="one\ntwo"),
        change("a", 3, diffs=["Description"], Description=diff("one\ntwo", "three")),
    )
    assert row(after)["Description"] == "three"


def test_an_unproven_diff_holds_the_record_at_what_was_known_before_it() -> None:
    wrong_base = diff("not what is there", "new")
    after = follow(
        with_row(),
        change("a", 2, "UPDATE", Name="applied"),
        change("a", 3, diffs=["Description"], Description=wrong_base, Name="with the diff"),
        change("a", 4, "UPDATE", Name="waits"),
    )
    assert suspects(after) == {"a": ("unproven_diff", 3)}
    held = row(after)
    assert (held["Name"], held["Description"], held["_in_doubt"], held["_position"]) == ("applied", "one\ntwo", True, 2)
    assert after.counts.waiting == 1


def test_a_diff_without_a_value_before_it_is_baseless() -> None:
    after = follow(with_row(None), change("a", 2, diffs=["Description"], Description=diff("x", "y")))
    assert suspects(after) == {"a": ("baseless_diff", 2)}


def test_a_diff_that_is_none_and_a_hash_of_the_wrong_length_are_entries_not_values() -> None:
    for text in (
        "no diff at all",
        "--- \n+++ abc\n@@ -1,1 +1,1 @@\n-one\n+uno",
        "--- \n+++ \n@@ -99,1 +99,1 @@\n-x\n+y",
    ):
        after = follow(with_row(), change("a", 2, diffs=["Description"], Description=text))
        assert suspects(after) == {"a": ("unproven_diff", 2)}
        assert row(after)["Description"] == "one\ntwo"


def test_an_undecodable_body_holds_its_record_and_no_other() -> None:
    after = follow(with_row(), change("a", 2, UNDECODABLE), change("b", 3, "CREATE", Name="flows"))
    assert suspects(after) == {"a": ("undecodable_payload", 2)}
    assert row(after, "b")["Name"] == "flows"


NOT_TOLD = [
    change("a", 2, "UPDATE", missing="Whole", Name="told"),
    change("a", 3, "UPDATE", Description="after it"),
    change("a", 4, "UPDATE", missing="again"),
    change("b", 5, "CREATE", missing="Whole", Name="new"),
]


def test_a_change_that_does_not_tell_all_is_applied_and_opens_an_entry_and_what_follows_waits() -> None:
    after = follow(with_row(), *NOT_TOLD)
    assert suspects(after) == {"a": ("missing_value", 2), "b": ("missing_value", 5)}
    held = row(after)
    assert (held["Name"], held["Description"], held["_in_doubt"], held["_position"]) == ("told", "one\ntwo", True, 2)
    assert (row(after, "b")["Name"], row(after, "b")["_in_doubt"]) == ("new", True)
    assert after.counts.waiting == 2


@pytest.mark.parametrize("cut", range(len(NOT_TOLD) + 1))
def test_what_waits_for_a_missing_value_does_not_depend_on_where_a_batch_ends(cut: int) -> None:
    whole = follow(with_row(), *NOT_TOLD)
    first = follow(with_row(), *NOT_TOLD[:cut])
    second = follow(first.rows, *NOT_TOLD[cut:])
    found, expected = (each.rows.drop("_batch", "_first_batch").sort("Id") for each in (second, whole))
    assert found.equals(expected)
    assert suspects(first) | suspects(second) == suspects(whole)


def test_what_comes_after_a_missing_value_is_not_looked_at_and_one_before_it_is() -> None:
    after = follow(
        with_row(),
        change("a", 2, "UPDATE", missing="Whole", Name="told"),
        change("a", 3, "GAP_UPDATE"),
        change("a", 4, "UPDATE", Name="waits"),
    )
    assert suspects(after) == {"a": ("missing_value", 2)}
    held = row(after)
    assert (held["Name"], held["_in_doubt"], held["_position"], after.counts.waiting) == ("told", True, 2, 2)
    after = follow(
        with_row(), change("a", 2, "GAP_UPDATE"), change("a", 3, "UPDATE", missing="never looked at", Name="waits")
    )
    assert (suspects(after), row(after)["Name"]) == ({"a": ("GAP_UPDATE", 2)}, "n")


def test_a_change_that_is_blocked_itself_is_not_applied_because_it_does_not_tell_all_besides() -> None:
    broken = change("a", 2, "UPDATE", missing="Whole", diffs=["Description"], Name="not applied", Description="no diff")
    after = follow(with_row(), broken)
    assert (suspects(after), row(after)["Name"]) == ({"a": ("unproven_diff", 2)}, "n")
    after = follow(with_row(), change("c", 2, "UPDATE", missing="Whole", Name="not applied"))
    assert (suspects(after), row(after, "c")["Name"]) == ({"c": ("unknown_record", 2)}, None)


def test_a_text_that_a_diff_leaves_empty_is_null_as_it_is_in_rest_and_the_next_diff_applies_to_it() -> None:
    after = follow(with_row("one"), change("a", 2, diffs=["Description"], Description=diff("one", "")))
    assert (row(after)["Description"], texts(after)[-1]["value"], texts(after)[-1]["sha256"]) == (None, None, None)
    again = follow(after.rows, change("a", 3, diffs=["Description"], Description=diff("", "two")))
    assert (row(again)["Description"], suspects(again)) == ("two", {})


def test_a_change_of_a_deleted_record_that_is_no_undelete_is_held() -> None:
    gone = follow(with_row(), change("a", 2, "DELETE")).rows
    for kind in ("UPDATE", "CREATE"):
        held = follow(gone, change("a", 3, kind, Name="there"))
        assert (suspects(held), row(held)["Name"]) == ({"a": ("deleted_record", 3)}, "n")
    in_one_batch = follow(with_row(), change("a", 2, "DELETE"), change("a", 3, Name="there"))
    assert suspects(in_one_batch) == {"a": ("deleted_record", 3)}
    assert suspects(follow(gone, change("a", 3, "DELETE"), change("a", 4, "UNDELETE", Name="back"))) == {}


def test_a_delete_of_a_record_that_is_deleted_is_no_contradiction_and_dates_it() -> None:
    gone = read_back(timeline(change("a", 1, "CREATE", Name="n")), read("a", 2, 4) | {"_is_deleted": True})
    after = follow(gone.rows, change("a", 3, "DELETE", at=50_000))
    assert suspects(after) == {}
    assert (row(after)["_is_deleted"], row(after)["_position"], row(after)["_deleted_reason"]) == (True, 3, "deleted")
    assert row(after)["_valid_from"].timestamp() == 50_000


def test_a_change_that_was_committed_before_a_read_found_its_record_deleted_is_no_contradiction() -> None:
    ahead = read_back(timeline(change("a", 1, "CREATE", Name="n")), read("a", 2, 4, Name="n") | {"_is_deleted": True})
    assert suspects(follow(ahead.rows, change("a", 3, Name="older"), change("a", 4, "DELETE"))) == {}
    assert suspects(follow(ahead.rows, change("a", 5, Name="there"))) == {"a": ("deleted_record", 5)}


def test_an_event_that_was_committed_before_one_that_came_earlier_is_held() -> None:
    row_of_event = timeline(
        change("a", 1, "CREATE", at=1_000, Name="n"), change("b", 2, "CREATE", at=2_000, Name="m")
    ).rows
    late = follow(row_of_event, change("a", 3, at=900, Name="late"), change("b", 4, at=2_100, Name="in time"))
    assert (suspects(late), row(late)["Name"], row(late)["_in_doubt"]) == ({"a": ("late_event", 3)}, "n", True)
    in_one_batch = follow(
        row_of_event,
        change("a", 3, at=3_000, Name="new"),
        change("a", 4, at=1_100, Name="late"),
        change("a", 5, at=3_100),
    )
    assert (suspects(in_one_batch), row(in_one_batch)["Name"]) == ({"a": ("late_event", 4)}, "new")
    assert suspects(follow(row_of_event, change("a", 3, at=1_100), change("a", 4, at=1_045))) == {}, "by seconds"


def test_a_read_that_is_ahead_of_its_watermark_makes_no_event_late() -> None:
    created = timeline(change("a", 1, "CREATE", at=1_000, Name="n"))
    ahead = read_back(created, read("a", 2, 9_000, Name="of a change that comes yet"))
    assert suspects(follow(ahead.rows, change("a", 3, at=5_000, Name="before the read"))) == {}


@pytest.mark.parametrize(("committed", "reasons"), [(2.0, []), (4.0, ["deleted_record"])])
def test_an_update_of_a_record_that_only_a_delete_made_known_meets_a_deleted_row_in_whatever_batch(
    committed: float, reasons: list[str]
) -> None:
    delete, late = change("a", 3, "DELETE"), change("a", 5, Count=5, at=committed)
    first = timeline(delete)
    for made in (timeline(delete, late), follow(first.rows, late)):
        assert [reason for reason, _ in suspects(made).values()] == reasons
        assert (row(made)["Count"], row(made)["_in_doubt"]) == ((5, False) if not reasons else (None, True))


def test_an_unknown_record_is_held_but_one_created_in_the_batch_is_not_unknown() -> None:
    after = follow(
        with_row(),
        change("x", 2, "UPDATE", Name="?"),
        change("y", 3, "CREATE", Name="c"),
        change("y", 4, "UPDATE", Name="u"),
    )
    assert suspects(after) == {"x": ("unknown_record", 2)}
    assert row(after, "x")["_in_doubt"] is True
    assert row(after, "y")["Name"] == "u"


def test_a_change_type_that_is_not_documented_is_an_entry() -> None:
    after = follow(with_row(), change("a", 2, "UNKNOWN"), change("b", 3, "SNAPSHOT"))
    assert suspects(after) == {"a": ("unknown_change_type", 2), "b": ("unknown_change_type", 3)}


def test_ids_that_speak_of_the_entity_are_reported_from_records() -> None:
    assert names_one_record("001Dp00000JJkkHIAT")
    for spoken in ("001*", "000000000000000AAA", "00000000000000AAA"):
        assert not names_one_record(spoken)
