"""Which values of a version are certain: those that an event or a read of the org has proven, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfcdc_assets.change_events.columns import Absence, Column
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
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
    timeline,
    versions,
)
from sfcdc_assets_tests.timeline.certain import ALIVE, ALL, CREATED, certain


def test_a_value_that_an_event_changed_without_telling_it_is_not_certain_until_a_read_shows_it() -> None:
    """What follows waits for the read, and of later events only what they set is certain, however the
    events were cut into batches."""
    events = (
        change("a", 1, "CREATE", missing="Name", unproven=["Name"], **{**everything(None), "Count": 7}),
        change("a", 2, Amount=1.0),
    )
    shown = read("a", 3, 2, Name="Mary", Amount=1.0, Count=7)
    together, first = timeline(*events), timeline(events[0])
    second_batch = follow(first.rows, events[1])
    for before in ([together], [first, second_batch]):
        whole = read_back(follow(before[-1].rows, *events), shown)
        assert [certain(each) for each in versions(*before, whole)] == [ALL - {"Name"}, {"Amount"}, ALL]
        assert certain(row(before[-1])) == ALL - {"Name"}, "the row says so too"


def test_a_checkbox_that_was_switched_on_and_off_by_lists_that_leave_it_open_is_not_certain() -> None:
    whole = timeline(
        CREATED,
        change("a", 2, missing="which belong to it", unproven=["Born", "Seen"], Active=True),
        change("a", 3, missing="which belong to it", unproven=["Active", "Born", "Seen"]),
        change("a", 4, Count=8),
    )
    read_back(whole, read("a", 5, 4, Count=8))
    assert [ALL - certain(each) for each in versions(whole)] == [
        set(),
        {"Born", "Seen"},
        ALL,
        ALL - {"Count"},
        set(),
    ]


def test_what_is_not_certain_stays_so_over_batches_until_an_event_sets_it() -> None:
    first = timeline(CREATED, change("a", 2, missing="Name", unproven=["Name"]))
    second_batch = follow(first.rows.with_columns(_in_doubt=False), change("a", 3, Count=8))
    third = follow(second_batch.rows, change("a", 4, Name="told"))
    assert [ALL - certain(each) for each in versions(first, second_batch, third)] == [set(), {"Name"}, {"Name"}, set()]


def test_a_delete_of_a_record_never_seen_proves_none_of_its_values() -> None:
    whole = timeline(change("a", 1, "DELETE"))
    assert reported(versions(whole), "_is_deleted", "_certain_fields") == [(True, [])]
    again = follow(whole.rows, change("a", 2, "UNDELETE", **everything("back")))
    assert [certain(each) for each in versions(whole, again)] == [set(), ALL]


def test_a_read_that_finds_nothing_of_a_record_never_seen_proves_none_of_its_values() -> None:
    held = timeline(change("a", 5, Name="y"))
    whole = read_back(follow(held.rows, change("a", 5, Name="y")), read("a", 6))
    assert [certain(each) for each in versions(held, whole)] == [{"Name"}, {"Name"}]
    assert row(whole)["_deleted_reason"] == "hard_deleted"


def test_a_record_of_which_nothing_is_certain_has_no_further_version_by_reads_that_find_it_gone_as_before() -> None:
    whole = timeline(change("a", 1, "DELETE"))
    once = read_back(follow(whole.rows), read("a", 2))
    twice = read_back(follow(once.rows), read("a", 2))
    assert reported(versions(whole, once, twice), "_change_type", "_certain_fields") == [("DELETE", [])]
    assert row(twice)["_deleted_reason"] == "hard_deleted"


def test_a_value_that_an_enriched_event_contradicts_is_not_certain_until_it_is_read() -> None:
    found = follow(timeline(CREATED).rows, change("a", 2, Count=8, enriched={"Name": "other"}))
    whole = read_back(follow(found.rows), read("a", 3, 2, Name="other", Amount=2.5, Count=8))
    assert [ALL - certain(each) for each in versions(found, whole)] == [set(), {"Name"}, set()]


def test_what_is_certain_after_an_enriched_contradiction_does_not_depend_on_where_a_batch_ends() -> None:
    events = CREATED, change("a", 2, Count=8, enriched={"Name": "other"}), change("a", 3, Count=9)
    shown = read("a", 3, 3, Name="other", Amount=2.5, Count=9)
    for before in ([timeline(*events)], in_batches(*events)):
        whole = read_back(follow(before[-1].rows), shown)
        assert [ALL - certain(each) for each in versions(*before, whole)] == [set(), {"Name"}, {"Name"}, set()]


def test_a_value_that_an_enriched_event_contradicts_is_not_certain_though_a_later_event_brings_it() -> None:
    """Another batch might have ended before that event, and a table must not depend on it."""
    events = CREATED, change("a", 2, Count=8, enriched={"Name": "other"}), change("a", 3, Name="other")
    for whole in ([timeline(*events)], in_batches(*events)):
        assert [ALL - certain(each) for each in versions(*whole)] == [set(), {"Name"}, set()]


def test_a_value_of_a_blocked_event_that_a_later_one_contradicts_is_not_certain_from_there_on() -> None:
    events = (
        change("a", 2, "GAP_UPDATE"),
        change("a", 3, Name="y", Count=8),
        change("a", 4, Amount=1.0, enriched={"Name": "other", "Count": 8}),
        change("a", 5, Amount=2.0),
    )
    held = follow(timeline(CREATED).rows, *events)
    whole = read_back(follow(held.rows, *events), read("a", 6, 5, Name="other", Amount=2.0, Count=8))
    found = [certain(each) for each in versions(whole)]
    assert found == [ALL, set(), {"Name", "Count"}, {"Amount", "Count"}, {"Amount", "Count"}, ALL]


def in_batches(*events: dict[str, object], columns: Sequence[Column] = COLUMNS) -> list[Timeline]:
    """One batch for each event."""
    made = [new_timeline(columns, 1)]
    for event in events:
        made.append(follow(made[-1].rows, event, columns=columns))
    return made


def test_a_deleted_row_that_is_changed_is_suspect_and_the_change_shows_that_it_is_there() -> None:
    hidden = read_back(timeline(CREATED), read("a", 2))
    held = follow(hidden.rows, change("a", 3, Count=8))
    assert (row(held)["_in_doubt"], row(held)["_is_deleted"], row(held)["Count"]) == (True, True, 7)
    answered = read_back(follow(held.rows, change("a", 3, Count=8)), read("a", 4, 3, Name="z", Count=8) | ALIVE)
    assert reported(versions(hidden, held, answered), "_is_deleted", "Count", "_change_type")[1:] == [
        (True, 7, "DELETE"),
        (False, 8, "UPDATE"),
        (False, 8, "REFETCH"),
    ]
    assert certain(versions(answered)[1]) == {"Count"}


def test_a_field_that_was_hidden_when_its_record_was_first_read_is_no_certain_null() -> None:
    first = read_back(new_timeline(COLUMNS, 1), read("a", 2, 1, Name="x") | {"_unread": ["Amount"]})
    told = follow(first.rows, change("a", 3, Amount=2.5))
    assert [certain(each) for each in versions(first, told)] == [ALL - {"Amount"}, ALL]


def test_a_read_that_does_not_show_a_field_proves_nothing_of_it_after_a_gap() -> None:
    first = timeline(CREATED, change("b", 2, "GAP_UPDATE"))
    known = read_back(follow(first.rows), read("a", 3, 1, Name="x", Count=7) | {"_unread": ["Amount"]})
    assert [certain(each) for each in versions(first, known) if each["Id"] == "a"] == [ALL], "it was proven before"
    held = follow(known.rows, change("a", 4, "GAP_UPDATE"))
    whole = read_back(
        follow(held.rows, change("a", 4, "GAP_UPDATE")), read("a", 5, 4, Name="z", Count=7) | {"_unread": ["Amount"]}
    )
    assert certain(row(whole)) == ALL - {"Amount"}


LATER = tuple(replace(column, came_at=5) if column.name == "Amount" else column for column in COLUMNS)


def test_a_column_that_came_later_is_certain_from_the_first_event_or_read_that_proves_it() -> None:
    """Null says of a version from before that all columns are certain that there were."""
    values = {name: value for name, value in everything("x", Count=7).items() if name != "Amount"}
    first = timeline(change("a", 1, "CREATE", **values), change("b", 1, "CREATE", **values), columns=LATER)
    then = follow(first.rows, change("a", 6, Count=8), change("b", 6, Amount=2.5), columns=LATER)
    whole = read_back(then, read("a", 7, 6, Name="x", Amount=2.5, Count=8), columns=LATER)
    of_a, of_b = ([each for each in versions(first, whole) if each["Id"] == record_id] for record_id in ("a", "b"))
    assert reported(of_a, "_change_type", "_certain_fields")[::2] == [("CREATE", None), ("REFETCH", None)]
    assert certain(of_a[1]) == ALL - {"Amount"}
    assert reported(of_b, "_change_type", "_certain_fields") == [("CREATE", None), ("UPDATE", None)]
    at_once = timeline(
        change("a", 1, "CREATE", **values), change("a", 6, Count=8), change("b", 1, "CREATE", **values), columns=LATER
    )
    assert reported(versions(at_once), "_certain_fields")[:2] == reported(of_a, "_certain_fields")[:2]


def test_a_read_that_shows_null_in_a_column_that_came_later_proves_it_without_a_version() -> None:
    values = {name: value for name, value in everything("x", Count=7).items() if name != "Amount"}
    first = timeline(change("a", 1, "CREATE", **values), columns=LATER)
    shown = read_back(follow(first.rows, columns=LATER), read("a", 6, 1, Name="x", Count=7), columns=LATER)
    whole = follow(shown.rows, change("a", 8, Count=9), columns=LATER)
    found = versions(first, shown, whole)
    assert reported(found, "_change_type", "_certain_fields") == [("CREATE", None), ("UPDATE", None)]


def test_a_read_that_leaves_a_column_open_that_came_later_is_a_version_that_says_so() -> None:
    values = {name: value for name, value in everything("x", Count=7).items() if name != "Amount"}
    first = timeline(change("a", 1, "CREATE", **values), columns=LATER)
    row_read = read("a", 6, 1, Name="x", Count=7) | {"_unread": ["Amount"]}
    shown = read_back(follow(first.rows, columns=LATER), row_read, columns=LATER)
    assert certain(row(shown)) == ALL - {"Amount"}


ABSENT = tuple(replace(c, absences=(Absence(3, 6),)) if c.name == "Amount" else c for c in COLUMNS)


def test_a_field_that_was_hidden_for_a_while_is_open_from_the_first_event_after_it_until_something_proves_it() -> None:
    """In the meantime it is none of the columns that there are, and whatever the batches, the versions are the same."""
    events = (CREATED, change("a", 2, Amount=3.0), change("a", 4, Count=8), change("a", 7, Count=9))
    told = read("a", 8, 7, Name="x", Amount=4.0, Count=9)
    for before in ([timeline(*events, columns=ABSENT)], in_batches(*events, columns=ABSENT)):
        whole = read_back(follow(before[-1].rows, columns=ABSENT), told, columns=ABSENT)
        found = versions(*before, whole)
        assert [ALL - certain(each) for each in found] == [set(), set(), set(), {"Amount"}, set()]
        assert [each["Amount"] for each in found] == [2.5, 3.0, 3.0, 3.0, 4.0]


def test_a_value_that_comes_when_its_field_is_known_to_be_hidden_is_not_certain_in_whatever_batches() -> None:
    """It may have been sent before; what the next batch knows of it is the row, which says nothing of such a field."""
    events = (CREATED, change("a", 2, unproven=["Name"]), change("a", 4, Amount=3.0), change("a", 5, Count=8))
    for made in ([timeline(*events, columns=ABSENT)], in_batches(*events, columns=ABSENT)):
        found = versions(*made)
        assert [ALL - certain(each) for each in found] == [set(), {"Name"}, {"Name", "Amount"}, {"Name", "Amount"}]
        assert found[-1]["Amount"] == 3.0


def test_a_null_of_a_hidden_field_is_not_its_value_and_a_value_is() -> None:
    nulls = change("a", 3, Amount=None, Count=8), change("a", 4, "UNDELETE", **everything("y"))
    hidden = timeline(CREATED, *nulls, change("b", 5, "CREATE", **everything("z")), columns=ABSENT)
    later = follow(hidden.rows, change("a", 6, Count=9), change("b", 6, Count=9), columns=ABSENT)
    assert [row(later, record_id)["Amount"] for record_id in "ab"] == [2.5, None]
    assert [certain(row(later, record_id)) for record_id in "ab"] == [ALL - {"Amount"}] * 2
    assert row(hidden)["_changed_fields"] is None
    told = timeline(CREATED, change("a", 5, Amount=3.0), columns=ABSENT)
    assert row(told)["Amount"] == 3.0
    again = follow(told.rows, change("a", 6, Amount=None), columns=ABSENT)
    assert (row(again)["Amount"], certain(row(again))) == (None, ALL)


def test_a_blocked_null_of_a_hidden_field_is_not_its_value_either() -> None:
    first = timeline(CREATED, columns=ABSENT)
    first.block(frame([change("a", 3, Amount=None, Count=8)]))
    whole = read_back(first, read("a", 7, 3, Name="x", Amount=4.0, Count=8), columns=ABSENT)
    assert [each["Amount"] for each in versions(whole)] == [2.5, 2.5, 4.0]


def test_a_read_that_does_not_show_a_hidden_field_leaves_it_open() -> None:
    row_read = read("a", 4, 1, Name="x", Count=7) | {"_unread": ["Amount"]}
    shown = read_back(timeline(CREATED, columns=ABSENT), row_read, columns=ABSENT)
    later = follow(shown.rows, change("a", 7, Count=8), columns=ABSENT)
    assert [ALL - certain(each) for each in versions(shown, later)] == [set(), {"Amount"}]


def test_a_formula_is_certain_only_where_an_event_names_it_or_a_read_shows_it() -> None:
    """Not all its changes raise an event. By itself it puts no version in doubt: each of its entity would be."""
    columns = tuple(replace(column, is_formula=column.name == "Amount") for column in COLUMNS)
    events = (
        CREATED,
        change("a", 2, Count=8),
        change("a", 3, missing="Name", unproven=["Name"], Count=9),
        change("a", 4, missing="Name", unproven=["Name"], Amount=3.0),
    )
    together = timeline(*events[:2], columns=columns)
    assert [each["_certain_fields"] for each in versions(together)] == [None, None]
    third = follow(together.rows, events[2], columns=columns)
    fourth = follow(third.rows.with_columns(_in_doubt=False), events[3], columns=columns)
    assert certain(row(third)) == ALL - {"Name", "Amount"}
    assert certain(row(fourth)) == ALL - {"Name"}
    shown = read_back(fourth, read("a", 5, 4, Name="x", Amount=4.0, Count=9), columns=columns)
    assert certain(row(shown)) == ALL


def test_between_events_of_which_some_may_be_missing_each_proves_what_it_sets_alone() -> None:
    """An object was off its channel for a while: where in the stream that was nobody knows."""
    whole = timeline(CREATED)
    whole.block(frame([change("a", 5, Count=8), change("a", 6, Name="told")]))
    whole.put(OrgRead(9, 4, snapshot=1, may_miss=True), reads([read("a", 9, 6, Name="told", Count=8)]))
    assert [certain(each) for each in versions(whole)] == [ALL, set(), {"Count"}, {"Name"}, ALL]
    held = timeline(CREATED)
    held.block(frame([change("a", 5, Count=8), change("a", 6, Name="told")]))
    held.put(OrgRead(9, 4, snapshot=1), reads([read("a", 9, 6, Name="told", Count=8)]))
    assert [certain(each) for each in versions(held)] == [ALL, set(), {"Count"}, {"Count", "Name"}, ALL]


def test_a_create_among_events_of_which_some_may_be_missing_proves_all_of_its_record() -> None:
    """Whatever is missing came after it."""
    whole = timeline()
    whole.block(frame([change("a", 5, "CREATE", Name="x"), change("a", 6, Count=8)]))
    whole.put(OrgRead(9, 4, snapshot=1, may_miss=True), reads([read("a", 9, 6, Name="x", Count=8)]))
    assert [certain(each) for each in versions(whole)] == [ALL, {"Count"}, ALL]


def test_a_blocked_event_that_was_committed_before_one_that_came_earlier_proves_nothing() -> None:
    """A move of the org may have brought its events in another order: by then they may have been overtaken."""
    whole = timeline(CREATED)
    late = change("a", 6, at=200, Name="overtaken")
    whole.block(frame([change("a", 5, at=400, Count=8), late, change("a", 7, at=401, Amount=2.0)]))
    whole.put(OrgRead(9, 4, snapshot=1), reads([read("a", 9, 401, Name="told", Count=8, Amount=2.0)]))
    assert [certain(each) for each in versions(whole)] == [ALL, set(), {"Count"}, {"Count"}, {"Count", "Amount"}, ALL]
