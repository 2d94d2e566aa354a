"""Which values of a version are certain: those that an event or a read of the org has proven, and no others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import polars as pl
from hypothesis import given, settings

from sfcdc_assets.reconciliation.verify import broken
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets_tests.examples import examples
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order
from sfcdc_assets_tests.timeline.builders import (
    COLUMNS,
    NAMES,
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
    timeline,
    versions,
)

CREATED = change("a", 1, "CREATE", **everything("x", Amount=2.5, Count=7))
ALL = set(NAMES[1:])


def certain(version: dict[str, Any]) -> set[str]:
    """The columns whose values are certain."""
    names = version["_certain_fields"]
    return ALL if names is None else set(names)


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


def in_batches(*events: dict[str, object]) -> list[Timeline]:
    """One batch for each event."""
    made = [new_timeline(COLUMNS, 1)]
    for event in events:
        made.append(follow(made[-1].rows, event))
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


def copied(of: Timeline, until: int, position: int, at: int | None, **values: object) -> Timeline:
    """A snapshot that answers an entry about the entity, which events up to `until` come before."""
    of.put(OrgRead(position, until, snapshot=1, seen_until=second(until)), reads([read("a", position, at, **values)]))
    return of


def test_after_an_entry_about_the_entity_no_value_is_certain_until_the_read_that_shows_a_later_change() -> None:
    first = timeline(CREATED, change("b", 5, "CREATE", **everything("quiet")))
    again = copied(follow(first.rows), 5, 9, 8, Name="lost", Amount=2.5, Count=7)
    shown = [each for each in versions(first, again) if each["Id"] == "a"]
    assert [(each["_valid_from"], certain(each)) for each in shown] == [
        (second(1), ALL),
        (second(5), set()),
        (second(8), ALL),
    ]
    assert reported(shown, "_change_type", "_position") == [("CREATE", 1), ("UNKNOWN", 6), ("SNAPSHOT", 9)]


def test_after_an_entry_about_the_entity_a_record_that_the_org_has_not_modified_since_stays_certain() -> None:
    first = timeline(CREATED)
    again = copied(follow(first.rows), 5, 9, 1, Name="x", Amount=2.5, Count=7)
    assert [certain(each) for each in versions(first, again)] == [ALL]


def test_what_a_record_lost_comes_after_what_its_row_stands_for_however_early_the_entry_about_the_entity_is() -> None:
    """As when the entity follows another channel, on which an entry lies before what its rows stand for."""
    first = timeline(change("a", 19, "CREATE", **everything("x", Amount=2.5, Count=7)))
    again = copied(follow(first.rows), 11, 20, 25, Name="lost", Amount=2.5, Count=7)
    shown = sorted(versions(first, again), key=in_order)
    assert_versions_follow(shown)
    assert reported(shown, "_change_type", "_position") == [("CREATE", 19), ("UNKNOWN", 20), ("SNAPSHOT", 20)]


def test_a_record_that_an_entry_about_the_entity_hides_and_an_event_names_is_not_certain_in_between() -> None:
    first = timeline(CREATED)
    held = follow(first.rows)
    held.block(frame([change("a", 7, Count=8)]))
    again = copied(held, 4, 9, 7, Name="lost", Amount=2.5, Count=8)
    assert [(each["_valid_from"], certain(each)) for each in versions(first, again)] == [
        (second(1), ALL),
        (second(4), set()),
        (second(7), {"Count"}),
        (second(7), ALL),
    ]


def test_a_record_that_only_blocked_events_tell_of_is_not_certain_after_a_loss_either() -> None:
    held = timeline(change("a", 1, "GAP_CREATE"), change("a", 3, missing="Name", unproven=["Name"], Amount=1.0))
    held.block(frame([change("a", 5, "GAP_UPDATE")]))
    shown = versions(copied(held, 3, 5, 5, Name="x", Count=0))
    assert [(each["_valid_from"], certain(each)) for each in shown] == [
        (second(1), set()),
        (second(3), {"Amount"}),
        (second(3), set()),
        (second(5), set()),
        (second(5), ALL),
    ]


def test_a_record_that_only_blocked_events_tell_of_and_the_org_has_not_modified_since_stays_certain() -> None:
    held = timeline(change("a", 1, "GAP_CREATE"), change("a", 3, Amount=1.0))
    shown = versions(copied(held, 3, 5, 3, Name="x", Amount=1.0, Count=0))
    assert [certain(each) for each in shown] == [set(), {"Amount"}, ALL]


def test_a_second_read_after_an_entry_about_the_entity_hides_nothing_before_the_first_one() -> None:
    """Two snapshots may answer one entry, and so may a read of the record alone: versions follow one another."""
    first = timeline(CREATED)
    held = follow(first.rows)
    held.block(frame([change("a", 7, "DELETE")]))
    once = copied(held, 4, 9, None)
    twice = copied(follow(once.rows), 4, 12, None)
    same = copied(follow(twice.rows), 4, 12, None)
    whole = pl.DataFrame(versions(first, once, twice, same))
    assert whole["_position"].to_list()[:2] == [1, 5]
    assert whole.filter(pl.col("_change_type") == "UNKNOWN")["_position"].to_list() == [5, 10]
    assert broken(whole) == []


def test_a_read_that_is_ahead_of_its_watermark_may_hide_changes_before_the_one_it_shows() -> None:
    first = timeline(CREATED)
    ahead = follow(first.rows)
    ahead.put(OrgRead(2, 2, read_back=1, seen_until=second(2)), reads([read("a", 2, 4, Name="y", Amount=2.5, Count=8)]))
    after = follow(ahead.rows, change("a", 3, Name="y"), change("a", 4, Count=8))
    shown = [(each["_valid_from"], certain(each)) for each in versions(first, ahead, after)]
    assert shown[:3] == [(second(1), ALL), (second(2), set()), (second(4), ALL)]


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


ALIVE = {"_is_deleted": False}
FIELDS = ("Name", "Amount", "Count")
VALUES = {"Name": st.sampled_from(["x", "y", None]), "Amount": st.sampled_from([1.0, None]), "Count": st.integers(0, 2)}


@dataclass
class Told:
    """What an org did at each second, the changes that tell of it, and reads of it with their watermarks."""

    states: list[dict[str, Any] | None] = field(default_factory=lambda: [None])
    """After each second; None while the record is not there. A deleted one keeps its values and `deleted`."""
    modified: list[int] = field(default_factory=lambda: [0])
    changes: list[dict[str, Any]] = field(default_factory=list)
    proven: dict[int, set[str]] = field(default_factory=dict)
    """Position -> columns that the event or read there tells."""
    org_reads: list[tuple[OrgRead, Any]] = field(default_factory=list)


@st.composite
def told(draw: st.DrawFn) -> Told:
    """A record's life, some of its events without a value that they changed, or none that can be read, the first ones
    never seen; read back at times, also by reads that are some changes ahead of their watermark. Before some of the
    reads events were lost, whereupon the entity was suspect."""
    made = Told()
    length = draw(st.integers(3, 9))
    for now in range(1, length + 1):
        _step(draw, made, now)
    first = draw(st.integers(0, length))
    made.changes = [each for each in made.changes if each["position"] > first]
    watermarks = sorted({*draw(st.sets(st.integers(first, length), max_size=3)), length})
    for number, watermark in enumerate(watermarks, 1):
        seen = watermark if watermark == length else min(length, watermark + draw(st.integers(0, 3)))
        before = watermarks[number - 2] if number > 1 else first
        lost = range(0)
        if draw(st.booleans()) and watermark > before:
            begin = draw(st.integers(before + 1, watermark))
            lost = range(begin, draw(st.integers(begin, watermark)) + 1)
        made.changes = [each for each in made.changes if each["position"] not in lost]
        until = lost.start - 1 if lost else watermark
        org_read = OrgRead(watermark, until, snapshot=number, seen_until=second(until))
        made.org_reads.append((org_read, _seen(made, seen, watermark)))
    return made


def _step(draw: st.DrawFn, made: Told, now: int) -> None:
    state = made.states[-1]
    if state is None or state["deleted"]:
        kind = "CREATE" if state is None else "UNDELETE"
        values = {name: draw(VALUES[name]) for name in FIELDS} if state is None else {n: state[n] for n in FIELDS}
        made.states.append({**values, "deleted": False})
        silent = {draw(st.sampled_from(FIELDS))} if draw(st.booleans()) else set()
    elif draw(st.integers(0, 3)) == 0:
        kind, values, silent = "DELETE", {}, set()
        made.states.append({**state, "deleted": True})
    else:
        kind = "UPDATE"
        values = {name: draw(VALUES[name]) for name in draw(st.sets(st.sampled_from(FIELDS), min_size=1))}
        made.states.append({**state, **values, "deleted": False})
        silent = {name for name in values if draw(st.integers(0, 3)) == 0}
    made.modified.append(now)
    cells = {name: value for name, value in values.items() if name not in silent}
    if kind in ("CREATE", "UNDELETE"):
        cells = dict.fromkeys(ALL - {*FIELDS}) | cells
    made.changes.append(
        change("a", now, kind, missing="some" if silent else None, unproven=sorted(silent), **cells)
        if kind == "DELETE" or draw(st.integers(0, 5))
        else change("a", now, f"GAP_{kind}")
    )


def _seen(made: Told, moment: int, watermark: int) -> Any:
    state, at = made.states[moment], {"_read_at": second(moment + 0.5)}
    if state is None:
        return reads([read("a", watermark) | at])
    shown = {name: state[name] for name in FIELDS}
    return reads([read("a", watermark, made.modified[moment], **shown) | {"_is_deleted": state["deleted"]} | at])


def followed(made: Told) -> list[dict[str, Any]]:
    """All versions, each reading a batch of its own, as the pipeline makes them."""
    rows, timelines, done = new_timeline(COLUMNS, 0).rows, [], -1
    for org_read, shown in made.org_reads:
        batch = Timeline(COLUMNS, rows, 1)
        batch.follow(frame(each for each in made.changes if done < each["position"] <= org_read.until))
        blocked = (each for each in made.changes if max(done, org_read.until) < each["position"] <= org_read.position)
        batch.block(frame(blocked))
        batch.put(org_read, shown)
        timelines.append(batch)
        rows, done = batch.rows, org_read.position
    return versions(*timelines)


@settings(max_examples=examples(0.3))
@given(told())
def test_a_value_that_is_certain_is_the_orgs_at_each_moment_of_its_version(made: Told) -> None:
    for version in followed(made):
        ends = version["_valid_to"]
        for moment, state in enumerate(made.states):
            if version["_valid_from"] <= second(moment) and (ends is None or second(moment) < ends) and state:
                told_then = {name: version[name] for name in certain(version).intersection(FIELDS)}
                assert told_then == {name: state[name] for name in told_then}, (moment, version)


@settings(max_examples=examples(0.3))
@given(told())
def test_a_value_that_an_event_sets_is_certain_in_its_version_and_a_read_makes_all_certain(made: Told) -> None:
    of_event = {each["position"]: each for each in made.changes}
    for version in followed(made):
        if version["_transaction_key"] is not None:
            cells = {NAMES[cell["column"]] for cell in of_event[version["_position"]]["cells"]}
            assert cells <= certain(version)
        elif version["_change_type"] in ("REFETCH", "SNAPSHOT"):
            assert certain(version) == ALL


@st.composite
def enriched_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A record's updates, some beside a value that it has, has not yet, or never had."""
    made = []
    for position in range(3, 3 + draw(st.integers(1, 6))):
        names = draw(st.sets(st.sampled_from(FIELDS), min_size=1, max_size=2))
        beside = draw(st.sets(st.sampled_from(FIELDS)).map(lambda found, names=names: found - names))
        carried = {name: value for name in sorted(beside) if (value := draw(VALUES[name])) is not None}
        values = {name: draw(VALUES[name]) for name in sorted(names)}
        missing = draw(st.integers(0, 9)) == 0
        lacks = {"missing": "some", "unproven": ["Born"]} if missing else {}
        made.append(change("a", position, enriched=carried, **lacks, **values))
    return made


@given(enriched_events(), st.booleans(), st.integers(0, 3))
def test_versions_of_enriched_events_are_the_same_whatever_the_batches(
    events: list[dict[str, Any]], was_read: bool, ahead: int
) -> None:
    """Also after a read that is ahead of its watermark: no batch is the same as one for each event."""
    first = timeline(CREATED)
    if was_read:
        read_back(first, read("a", 2, 2 + ahead, Name="y", Amount=1.0, Count=1))
    found = []
    for cuts in ([0, len(events)], list(range(len(events) + 1))):
        batches = [first]
        for begin, end in pairwise(cuts):
            batches.append(follow(batches[-1].rows, *events[begin:end]))
        found.append([{**each, "_batch": None} for each in versions(*batches)])
    assert found[0] == found[1]
