"""Which values are certain where changes may have been missed: none that the org may have changed unseen."""

from __future__ import annotations

import polars as pl

from sfcdc_assets.reconciliation.broken_histories import broken
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow, in_order
from sfcdc_assets_tests.timeline.builders import (
    change,
    everything,
    follow,
    frame,
    read,
    reads,
    reported,
    second,
    timeline,
    versions,
)
from sfcdc_assets_tests.timeline.certain import ALL, CREATED, certain


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


def test_after_an_entry_about_the_entity_a_record_that_differs_is_not_certain_though_its_stamp_is_no_later() -> None:
    """A change of all records at once leaves the stamp as it was, and two changes of one second have one."""
    first = timeline(CREATED)
    again = copied(follow(first.rows), 5, 9, 1, Name="lost", Amount=2.5, Count=7)
    shown = [(each["_valid_from"], certain(each)) for each in versions(first, again)]
    assert shown == [(second(1), ALL), (second(5), set()), (second(999), ALL)]


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
