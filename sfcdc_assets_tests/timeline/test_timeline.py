"""Events and reads become versions: the last is the record's row, those before it are superseded."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import OF_THE_ROW
from sfcdc_assets_tests.timeline.builders import (
    COLUMNS,
    change,
    everything,
    follow,
    frame,
    new_timeline,
    read,
    read_back,
    reads,
    reported,
    row,
    second,
    snapshot,
    suspects,
    timeline,
    versions,
)

CREATED = change("a", 1, "CREATE", **everything("x", Amount=2.5, Count=7))


def test_an_update_changes_only_the_fields_it_names() -> None:
    after = follow(timeline(CREATED).rows, change("a", 2, Name="y"))
    assert reported([row(after)], "Name", "Amount", "Count", "_position") == [("y", 2.5, 7, 2)]
    assert (after.counts.inserted, after.counts.updated, after.counts.versions) == (0, 1, 1)


def test_records_that_are_read_beyond_the_batchs_end_take_no_other_record_past_it() -> None:
    """What a read stands for may lie in a transaction whose end has not come: of the records that were read it is told
    now, of all others with the whole transaction."""
    born = timeline(*(change(each, 1, "CREATE", **everything(each)) for each in "abc")).rows
    changes = [change(each, 2 + number, Name=f"{each}{2 + number}") for number in range(3) for each in "abc"]
    first = Timeline(COLUMNS, born, 2)
    of_a, of_b = read("a", 3, 3.0, **everything("a3")), read("b", 4, 4.0, **everything("b4"))
    org_reads = [(OrgRead(3, 3, read_back=1), reads([of_a])), (OrgRead(4, 4, read_back=2), reads([of_b]))]
    first.take(frame(changes), org_reads, up_to=2)
    assert [row(first, each)["_position"] for each in "abc"] == [3, 4, 2]
    later = [(each["Id"], each["_position"], each["Name"]) for each in versions(first) if each["_position"] > 1]
    assert [each[:2] for each in later] == [("a", 2), ("a", 3), ("b", 2), ("b", 3), ("b", 4), ("c", 2)]

    later, whole = Timeline(COLUMNS, first.rows, 3), Timeline(COLUMNS, born, 2)
    later.take(frame([each for each in changes if int(str(each["position"])) > 2]), [], up_to=4)
    whole.take(frame(changes), org_reads, up_to=4)
    found, expected = versions(first, later), versions(whole)
    assert [each | {"_batch": None} for each in found] == [each | {"_batch": None} for each in expected]


def test_an_event_of_before_the_read_of_its_record_changes_nothing_where_it_may_be_older_than_a_copy() -> None:
    created = timeline(*(change(each, 1, "CREATE", **everything("x", Count=7)) for each in "abc"))
    shown = snapshot(created, 2, *(read(each, 2, 50, **everything("shown", Count=8)) for each in "abc"))
    older = frozenset((3, 4, 6))
    late = [change("a", 3, at=40, Name="older"), change("b", 4, at=50, Name="of the same second")]
    late += [change("c", 5, at=45, Name="of no such position"), change("c", 6, at=41, Name="after it")]
    after = Timeline(COLUMNS, shown.rows, 2, older)
    after.follow(frame(late))
    names = {each: row(after, each)["Name"] for each in "abc"}
    assert names == {"a": "shown", "b": "of the same second", "c": "after it"}
    assert suspects(after) == {"a": ("silent_change", 3)}
    assert not row(after)["_in_doubt"], "what the copy shows is no worse for it"
    assert {each["Id"] for each in versions(after) if each["_position"] > 2} == {"b", "c"}


def entries(*made: Timeline) -> set[tuple[str, int]]:
    return {(each.reason.value, each.position) for one in made for each in one.suspects}


def shown_by_a_copy() -> pl.DataFrame:
    created = timeline(change("a", 1, "CREATE", **everything("x")))
    return snapshot(created, 2, read("a", 2, 50, **everything("shown"))).rows


def test_what_a_copy_showed_of_a_record_is_left_out_though_it_has_become_suspect() -> None:
    rows, older = shown_by_a_copy(), frozenset((4,))
    gap, event = change("a", 3, "GAP_UPDATE", at=60), change("a", 4, at=40, Name="older")
    apart = Timeline(COLUMNS, rows, 2, older)
    apart.follow(frame([gap]))
    later = Timeline(COLUMNS, apart.rows, 3, older)
    later.follow(frame([event]))
    at_once = Timeline(COLUMNS, rows, 2, older)
    at_once.follow(frame([gap, event]))
    assert entries(apart, later) == entries(at_once) == {("GAP_UPDATE", 3), ("silent_change", 4)}
    assert [each.counts.waiting for each in (apart, later, at_once)] == [0, 0, 0]


@pytest.mark.parametrize("first", [3, 4])
def test_an_event_that_a_copy_has_shown_is_no_version_when_a_later_read_answers_what_came_around_it(first: int) -> None:
    """It is met again then, where another record has waited from before it on."""
    rows, older = shown_by_a_copy(), frozenset((first,))
    event, gap = change("a", first, at=40, Name="older"), change("a", 7 - first, "GAP_UPDATE", at=60)
    stream = sorted((event, gap), key=lambda each: int(str(each["position"])))
    back = (OrgRead(5, 5, read_back=1), reads([read("a", 5, 60, **everything("back"))]))
    made = [Timeline(COLUMNS, rows, 2, older)]
    for each in stream:
        made[-1].follow(frame([each]))
        made.append(Timeline(COLUMNS, made[-1].rows, 2, older))
    made[-1].take(frame(stream), [back], 5)
    whole = Timeline(COLUMNS, rows, 2, older)
    whole.take(frame(stream), [back], 5)
    assert versions(*made) == versions(whole)
    assert "older" not in {each["Name"] for each in versions(whole)}


def test_an_event_that_a_copy_has_shown_is_no_version_though_the_whole_entity_had_become_suspect_before_it() -> None:
    made = Timeline(COLUMNS, shown_by_a_copy(), 2, frozenset((4,)))
    event = change("a", 4, at=40, Name="older")
    made.take(frame([event]), [(OrgRead(5, 2, read_back=1), reads([read("a", 5, 60, **everything("back"))]))], 5)
    assert "older" not in {each["Name"] for each in versions(made)}


def test_a_nulled_field_is_not_the_same_as_an_unchanged_one() -> None:
    assert reported([row(follow(timeline(CREATED).rows, change("a", 2, Amount=None)))], "Amount", "Count") == [
        (None, 7)
    ]


def test_values_of_every_type_arrive_in_their_columns() -> None:
    found = row(timeline(change("a", 1, "CREATE", Name="n", Amount=0.1, Count=-3, Active=1, Born=-1, Seen=-1)))
    assert found["Active"] is True
    assert found["Born"] == dt.date(1969, 12, 31)
    assert found["Seen"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    assert reported([found], "Name", "Amount", "Count") == [("n", 0.1, -3)]


def test_each_change_is_a_version_and_the_last_is_the_row() -> None:
    whole = timeline(CREATED, change("a", 2, Name="y"), change("a", 3, "DELETE"))
    assert reported(versions(whole), "Name", "Count", "_change_type", "_valid_from", "_valid_to", "_superseded_at") == [
        ("x", 7, "CREATE", second(1), second(2), 2),
        ("y", 7, "UPDATE", second(2), second(3), 3),
        ("y", 7, "DELETE", second(3), None, None),
    ]
    assert reported(versions(whole), "_changed_fields") == [(None,), (["Name"],), (None,)]
    assert reported([row(whole)], "_is_deleted", "_deleted_reason") == [(True, "deleted")]


def test_a_superseded_version_is_the_row_as_it_was() -> None:
    first = timeline(CREATED)
    second_batch = follow(first.rows, change("a", 2, Name="y"))
    (superseded,) = second_batch.superseded.to_dicts()
    before, of_the_row = row(first), {*OF_THE_ROW, "_batch"}
    assert {name: superseded[name] for name in before if name not in of_the_row} == {
        name: value for name, value in before.items() if name not in of_the_row
    }
    assert (superseded["_batch"], row(second_batch)["_batch"], before["_batch"]) == (2, 2, 1)


def test_an_undelete_brings_a_record_back_with_what_it_carries() -> None:
    gone = timeline(CREATED, change("a", 2, "DELETE"))
    back = follow(gone.rows, change("a", 3, "UNDELETE", **everything("back")))
    assert reported([row(back)], "Name", "_is_deleted", "_deleted_reason") == [("back", False, None)]
    assert reported(versions(gone, back), "_is_deleted") == [(False,), (True,), (False,)]


def test_an_object_of_which_only_the_ids_are_kept_has_versions_too() -> None:
    columns = COLUMNS[:1]
    changes = [change("a", 1, "CREATE"), change("a", 2), change("a", 3, "DELETE")]
    whole = read_back(timeline(*changes, columns=columns), read("a", 4), columns=columns)
    assert reported(versions(whole), "_change_type", "_changed_fields", "_position") == [
        ("CREATE", None, 1),
        ("UPDATE", [], 2),
        ("DELETE", None, 3),
    ]
    assert row(whole)["_deleted_reason"] == "hard_deleted", "a read may tell of the row without a new version"


def test_a_change_that_the_row_already_stands_for_is_dropped() -> None:
    base = timeline(change("a", 7, "CREATE", **everything("newer")))
    after = follow(base.rows, change("a", 6, Name="old"), change("a", 7, Name="old"))
    assert row(after)["Name"] == "newer"
    assert (after.changed, after.counts.updated, after.counts.versions) == (False, 0, 0)


def test_each_record_is_counted_once_in_what_became_of_it() -> None:
    born = timeline(*(change(each, 1, "CREATE", **everything(each)) for each in "abd")).rows
    after = follow(
        born,
        *(change("a", 2, Name="y"), change("a", 3, "DELETE"), change("b", 4, Name="z"), change("b", 5, Name="zz")),
        *(change("c", 6, "CREATE", **everything("c")), change("c", 7, "DELETE")),
    )
    assert (after.counts.inserted, after.counts.updated, after.counts.deleted) == (1, 1, 1)


def test_a_first_snapshot_is_a_version_and_one_that_shows_the_same_is_none() -> None:
    first = snapshot(new_timeline(COLUMNS, 1), 0, read("a", 0, 5, Name="x"))
    assert reported(versions(first), "Name", "_change_type", "_valid_from", "_changed_fields") == [
        ("x", "SNAPSHOT", second(5), None)
    ]
    again = snapshot(follow(first.rows), 7, read("a", 7, 6, Name="x"))
    assert again.counts.versions == 0
    assert reported([row(again)], "_position", "_read_position") == [(0, 7)]
    assert reported([row(again)], "_valid_from", "_commit_timestamp") == [(second(5), second(6))]


def test_values_that_were_read_back_are_a_version_with_the_fields_that_differ() -> None:
    whole = read_back(timeline(CREATED), read("a", 4, 9, Name="z", Amount=2.5, Count=7))
    assert reported(versions(whole), "Name", "_change_type", "_changed_fields", "_valid_from", "_valid_to") == [
        ("x", "CREATE", None, second(1), second(1)),
        ("x", "UNKNOWN", None, second(1), second(9)),
        ("z", "REFETCH", ["Name"], second(9), None),
    ], "nobody knows what was changed between the event and the modification that the read shows"


def test_what_became_of_a_record_that_is_not_there_is_reported_apart() -> None:
    base = timeline(*[change(name, 1, "CREATE", **everything(name, Count=1)) for name in "abc"])
    deleted = {"_is_deleted": True}
    read_back(
        base,
        read("a", 3),
        read("b", 3, 2, Name="b", Count=1) | deleted,
        read("c", 3, 2, Name="c", Count=1) | deleted | {"_master_record_id": "a"},
    )
    found = {name: reported([row(base, name)], "_is_deleted", "_deleted_reason", "Name") for name in "abc"}
    assert found == {
        "a": [(True, "hard_deleted", "a")],
        "b": [(True, "deleted", "b")],
        "c": [(True, "merged", "c")],
    }
    assert row(base)["_valid_from"] == second(999), "since when is not known, so it is when that was found"


def test_a_snapshot_takes_the_place_of_the_rows_and_finds_hard_deletes() -> None:
    base = timeline(
        change("a", 1, "CREATE", **everything("a")),
        change("b", 2, "CREATE", **everything("b")),
        change("suspects", 3, Name="?"),
        change("new", 9, "CREATE", **everything("after the watermark")),
    )
    snapshot(base, 5, read("a", 5, 4, Name="snapshot"))
    assert reported([row(base)], "Name", "_position") == [("snapshot", 5)]
    assert reported([row(base, "b")], "_deleted_reason", "_position") == [("hard_deleted", 5)]
    assert reported([row(base, "new")], "Name", "_is_deleted", "_position") == [("after the watermark", False, 9)]
    assert reported([row(base, "suspects")], "_deleted_reason", "_in_doubt") == [("hard_deleted", False)]


def test_a_read_that_is_older_than_its_row_is_left_out() -> None:
    base = timeline(change("a", 9, "CREATE", **everything("newer")))
    assert row(read_back(base, read("a", 5, 4, Name="old")))["Name"] == "newer"


def test_events_after_the_watermark_of_a_read_go_on_top_of_it_whatever_the_clocks_say() -> None:
    base = read_back(new_timeline(COLUMNS, 1), read("a", 3, 100, Name="newest"))
    base.follow(frame([change("a", 4, Name="older"), change("a", 5, Name="newest"), change("a", 6, at=150, Name="z")]))
    assert reported(versions(base), "Name", "_valid_from", "_valid_to") == [
        ("newest", second(100), second(100)),
        ("older", second(100), second(100)),
        ("newest", second(100), second(150)),
        ("z", second(150), None),
    ]


def test_times_that_run_backwards_do_not_make_versions_overlap() -> None:
    whole = timeline(CREATED, change("a", 2, at=0, Name="y"))
    assert reported(versions(whole), "_valid_from", "_valid_to") == [(second(1), second(1)), (second(1), None)]
    assert row(whole)["_commit_timestamp"] == second(0)


def test_events_between_an_entry_and_its_answer_become_versions_that_say_what_is_certain() -> None:
    first = timeline(CREATED)
    held = follow(first.rows, change("a", 2, "GAP_UPDATE"), change("a", 3, Name="b"), change("a", 4, Count=1))
    assert reported([row(held)], "Name", "_in_doubt", "_position") == [("x", True, 1)]
    assert (held.counts.waiting, held.counts.versions) == (2, 0)
    waited = [change("a", 2, "GAP_UPDATE"), change("a", 3, Name="b"), change("a", 4, Count=1)]
    answered = read_back(follow(held.rows, *waited), read("a", 5, 4, Name="b", Amount=9.0, Count=1))
    assert reported(versions(held, answered), "_position", "_change_type", "Name", "Count", "_certain_fields") == [
        (1, "CREATE", "x", 7, None),
        (2, "GAP_UPDATE", "x", 7, []),
        (3, "UPDATE", "b", 7, ["Name"]),
        (4, "UPDATE", "b", 1, ["Name", "Count"]),
        (5, "REFETCH", "b", 1, None),
    ]
    assert reported(versions(held, answered), "_commit_user", "_valid_from")[1:3] == [
        ("u2", second(2)),
        ("u3", second(3)),
    ]
    assert row(answered)["_in_doubt"] is False


def test_what_was_certain_is_not_after_another_event_that_cannot_be_read() -> None:
    waited = [
        change("a", 2, "GAP_UPDATE"),
        change("a", 3, Name="b"),
        change("a", 4, "GAP_UPDATE"),
        change("a", 5, Count=1),
        change("a", 6, "UNDELETE", **everything("whole")),
        change("a", 7, Name="c"),
    ]
    answered = read_back(follow(timeline(CREATED).rows, *waited), read("a", 8, 7, Name="c"))
    found = reported(versions(answered), "_position", "_certain_fields")
    assert found == [(1, None), (2, []), (3, ["Name"]), (4, []), (5, ["Count"]), (6, None), (7, None)]


def test_a_read_that_equals_what_is_uncertain_is_a_version_because_now_it_is_certain() -> None:
    waited = [change("a", 2, "GAP_UPDATE"), change("a", 3, Name="b")]
    answered = read_back(follow(timeline(CREATED).rows, *waited), read("a", 3, 3, Name="b", Amount=2.5, Count=7))
    assert reported(versions(answered), "_position", "_certain_fields", "_change_type")[1:] == [
        (2, [], "GAP_UPDATE"),
        (3, ["Name"], "UPDATE"),
        (3, None, "REFETCH"),
    ]


def test_a_diff_that_was_not_proven_is_named_among_the_changes_and_not_among_what_is_certain() -> None:
    waited = [change("a", 2, diffs=["Description"], Description="no diff", Name="b")]
    answered = read_back(follow(timeline(CREATED).rows, *waited), read("a", 3, 2, Name="b", Description="read"))
    found = reported(versions(answered), "_changed_fields", "_certain_fields", "Description")[1:]
    assert sorted(found[0][0]) == ["Description", "Name"]
    assert (found[0][1:], found[1][1:]) == ((["Name"], None), (None, "read"))


def test_an_update_of_a_record_never_seen_makes_a_suspect_row_that_is_no_version() -> None:
    base = timeline(change("a", 5, Name="y"))
    assert reported([row(base)], "_in_doubt", "Name", "_position", "_change_type") == [(True, None, 4, None)]
    answered = read_back(follow(base.rows, change("a", 5, Name="y")), read("a", 6, 5, Name="y", Count=2))
    assert reported(versions(base, answered), "_position", "Name", "Count", "_certain_fields", "_changed_fields") == [
        (5, "y", None, ["Name"], ["Name"]),
        (6, "y", 2, None, ["Count"]),
    ]


def test_a_gap_holds_the_record_and_nothing_else() -> None:
    changes = [change("a", 2, Name="y"), change("a", 3, "GAP_UPDATE"), change("a", 4, Name="z")]
    held = follow(timeline(CREATED).rows, *changes)
    assert reported([row(held)], "_in_doubt", "Name", "_position") == [(True, "y", 2)]
    later = follow(held.rows, change("a", 5, Name="w"), change("b", 6, "CREATE", **everything("flows")))
    assert (row(later)["Name"], row(later, "b")["Name"]) == ("y", "flows")
    assert (later.counts.waiting, later.counts.inserted) == (1, 1)


def test_a_record_that_became_suspect_after_a_late_snapshots_watermark_was_not_deleted_before_it() -> None:
    first = snapshot(new_timeline(COLUMNS, 1), 1, read("b", 1, 1, Name="x"))
    gap = [change("a", 2, "GAP_CREATE")]
    late = Timeline(COLUMNS, follow(first.rows, *gap).rows, 3)
    late.roll_back(1, first.superseded)
    snapshot(late, 1, read("b", 1, 1, Name="x"))
    late.follow(frame(gap))
    assert reported([row(late)], "_change_type", "_is_deleted", "_in_doubt", "_valid_from") == [
        (None, False, True, None)
    ]


def test_a_version_says_whether_it_is_dated_by_its_commit_the_records_stamp_or_when_it_was_seen() -> None:
    first = snapshot(
        new_timeline(COLUMNS, 1), 1, read("a", 1, 5, **everything("x")), read("b", 1, 5, **everything("x"))
    )
    assert reported([row(first)], "_valid_from", "_dated_by") == [(second(5), "stamp")]
    followed = follow(first.rows, change("a", 10, Name="y"))
    assert reported([row(followed)], "_valid_from", "_dated_by") == [(second(10), "commit")]
    silent = read_back(Timeline(COLUMNS, followed.rows, 3), read("a", 11, 10, **everything("z")))
    assert reported([row(silent)], "_valid_from", "_dated_by") == [(second(999), "seen")]
    gone = read_back(Timeline(COLUMNS, silent.rows, 4), read("b", 12))
    assert reported([row(gone, "b")], "_valid_from", "_dated_by") == [(second(999), "seen")]


def test_a_version_between_two_polls_that_nobody_saw_is_dated_by_when_the_org_had_been_asked() -> None:
    first = snapshot(new_timeline(COLUMNS, 1), 1, read("a", 1, 5, **everything("x")))
    polled = Timeline(COLUMNS, first.rows, 2)
    polled.put(
        OrgRead(2, 2, read_back=1, seen_until=second(50), polled=True), reads([read("a", 2, 60, **everything("y"))])
    )
    assert reported(versions(first, polled), "_change_type", "_valid_from", "_dated_by", "_certain_fields") == [
        ("SNAPSHOT", second(5), "stamp", None),
        ("UNKNOWN", second(50), "seen", []),
        ("POLL", second(60), "stamp", None),
    ]


def test_a_version_that_would_begin_before_the_one_it_supersedes_is_dated_as_that_one_is() -> None:
    first = timeline(change("a", 1, "CREATE", at=100, **everything("x")), change("a", 2, Name="y", at=90))
    assert reported([row(first)], "_valid_from", "_dated_by") == [(second(100), "commit")]
    seen = snapshot(Timeline(COLUMNS, first.rows, 2), 3, read("a", 3, 80, **everything("w")))
    late = follow(seen.rows, change("a", 4, Name="v", at=200))
    assert reported([row(late)], "_valid_from", "_dated_by") == [(second(999), "seen")]
