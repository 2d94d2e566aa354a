"""What is known of a record, as an algebra: any order, any batches and any repetition give the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.event_channels.push_topics.known_record import BEFORE_ALL, KnownRecord, Stamp, Standing, join

FIELDS = ("Name", "Phone", "Site")
VALUES = st.dictionaries(st.sampled_from(FIELDS), st.none() | st.integers(0, 3), max_size=3)


@st.composite
def notifications(draw: st.DrawFn) -> list[KnownRecord]:
    """Of one record. Times and replay ids collide often; a position is one notification's."""
    reported = draw(
        st.lists(
            st.tuples(
                st.none() | st.integers(0, 3), st.integers(8, 12), st.sampled_from(["updated", "deleted"]), VALUES
            ),
            max_size=6,
        )
    )
    return [
        KnownRecord.of_notification(
            Stamp.of_notification(created, str(replay).encode(), position), kind, {} if kind == "deleted" else values
        )
        for position, (created, replay, kind, values) in enumerate(reported, 1)
    ]


@st.composite
def observations(draw: st.DrawFn) -> list[KnownRecord]:
    """Notifications, and reads that stand for some of them."""
    found = draw(notifications())
    stamps = [BEFORE_ALL, *(each.standing[0] for each in found)]
    for number, (after, values) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(stamps), st.none() | VALUES), max_size=3)), 1
    ):
        stamp = after.read_after(1_000 + number)
        found.append(KnownRecord.of_absence(stamp) if values is None else KnownRecord.of_read(stamp, values))
    return found


@settings(deadline=None)
@given(observations(), st.randoms())
def test_the_order_in_which_observations_come_makes_no_difference(found: list[KnownRecord], dice: Any) -> None:
    shuffled = list(found)
    dice.shuffle(shuffled)
    assert join(shuffled) == join(found)


@settings(deadline=None)
@given(observations(), st.integers(0, 9), st.integers(0, 9))
def test_the_batches_in_which_they_come_make_no_difference(found: list[KnownRecord], first: int, second: int) -> None:
    one, two = sorted((first % (len(found) + 1), second % (len(found) + 1)))
    parts = [join(found[:one]), join(found[one:two]), join(found[two:])]
    assert join(parts) == join(found)
    assert parts[0].joined(parts[1].joined(parts[2])) == parts[0].joined(parts[1]).joined(parts[2])


@settings(deadline=None)
@given(observations())
def test_what_comes_twice_changes_nothing(found: list[KnownRecord]) -> None:
    once = join(found)
    assert join([*found, *found]) == once.joined(once) == once


@settings(deadline=None)
@given(notifications())
def test_notifications_give_what_they_would_in_their_own_order(found: list[KnownRecord]) -> None:
    values: dict[str, Any] = {}
    standing, kind = Standing.THERE, None
    for each in sorted(found, key=lambda known: known.standing[0]):
        values |= each.plain_values()
        standing = each.standing[1]
        kind = each.notified[1] if each.notified else None
    known = join(found)
    assert known.plain_values() == values
    assert known.standing[1] == standing
    assert (known.notified[1] if known.notified else None) == kind


def notified(created: int, kind: str, replay_id: bytes = b"5", position: int = 1, **values: Any) -> KnownRecord:
    return KnownRecord.of_notification(Stamp.of_notification(created, replay_id, position), kind, values)


def states(*found: KnownRecord) -> Mapping[str, Any]:
    return join(found).plain_values()


def test_created_date_decides_and_then_the_replay_id_as_a_number() -> None:
    older = notified(1, "updated", b"99", 2, Name="old", Phone="1")
    newer = notified(2, "updated", b"5", 1, Name="new")
    assert states(newer, older) == {"Name": "new", "Phone": "1"}, "a field that the newer one lacks stays known"
    same = notified(2, "updated", b"10", 3, Name="newest"), notified(2, "updated", b"9", 4, Name="new")
    assert states(*same) == {"Name": "newest"}


def test_a_delete_keeps_the_values_and_an_undelete_brings_the_record_back() -> None:
    created, deleted = notified(1, "created", Name="a"), notified(2, "deleted")
    assert join([created, deleted]).standing[1] is Standing.DELETED
    assert states(created, deleted) == {"Name": "a"}
    again = notified(3, "undeleted", Name="a")
    assert join([again, created, deleted]).standing[1] is Standing.THERE


def test_a_record_that_the_query_does_not_find_has_left_until_a_later_notification() -> None:
    known = notified(5, "updated", Name="a")
    absent = KnownRecord.of_absence(known.standing[0].read_after(9_000))
    assert join([absent, known]).left_at_ms == 9_000
    assert join([absent, known, notified(4, "updated", Name="x")]).left_at_ms == 9_000, "it was made before the read"
    assert join([absent, known, notified(6, "updated", Name="b")]).left_at_ms is None


def test_a_read_stands_for_the_notifications_before_it_and_no_others() -> None:
    before, after = notified(5, "updated", Name="a"), notified(6, "updated", b"6", 2, Name="c")
    read = KnownRecord.of_read(before.standing[0].read_after(9_000), {"Name": "b", "Phone": "1"})
    assert states(read, before) == {"Name": "b", "Phone": "1"}
    assert states(read, before, after) == {"Name": "c", "Phone": "1"}
    assert join([read, before]).read_at_ms == 9_000
    first = KnownRecord.of_read(BEFORE_ALL.read_after(9_000), {"Name": "z"})
    assert states(first, before) == {"Name": "a"}, "a read from before all notifications is older than each"
