"""The chain of a field's values in one record of a PushTopic."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.event_channels.push_topics.known_record import KnownRecord, Stamp, join
from sfcdc_assets.event_channels.push_topics.value_chain import LEFT, READ, Observation, reads_of, value_chain


def notified(ms: int, kind: str, **values: object) -> Observation:
    return Observation(Stamp.of_notification(ms, str(ms).encode(), ms), kind, values)


def read(after: Observation, at_ms: int, **values: object) -> Observation:
    return Observation(after.stamp.read_after(at_ms), READ, values)


def said(observations: Sequence[Observation], column: str) -> list[tuple[object, str, int | None]]:
    return [(link.value, link.set_by.kind, link.set_by.at_ms) for link in value_chain(observations, column)]


CREATED = notified(1, "created", Name="A", Phone=None)
UPDATED = notified(2, "updated", Name="A", Phone="1")
DELETED = notified(4, "deleted")
BACK = notified(5, "undeleted", Name="A", Phone="2")


def test_a_value_has_the_notification_that_set_it_and_one_that_repeats_it_is_no_link() -> None:
    assert said([UPDATED, CREATED], "Name") == [("A", "created", 1)]
    assert said([UPDATED, CREATED], "Phone") == [(None, "created", 1), ("1", "updated", 2)]
    assert said([CREATED], "Fax") == []
    (first, last) = value_chain([CREATED, UPDATED], "Phone")
    assert (first.until, last.until) == (UPDATED, None)


def test_a_record_that_is_deleted_comes_back_or_leaves_the_filter_is_a_link_of_each_known_field() -> None:
    left = Observation(UPDATED.stamp.read_after(3), LEFT)
    found = [("A", "created", 1), ("A", "left", 3), ("A", "deleted", 4), ("A", "undeleted", 5)]
    assert said([CREATED, UPDATED, left, DELETED, BACK], "Name") == found
    assert said([DELETED], "Name") == []


def test_a_read_stands_where_its_stamp_does_and_not_where_its_clock_does() -> None:
    shown = read(UPDATED, 99, Phone="3", Fax="9")
    assert said([CREATED, UPDATED, shown, BACK], "Phone")[-2:] == [("3", "read", 99), ("2", "undeleted", 5)]
    assert said([CREATED, shown], "Fax") == [("9", "read", 99)]


OBSERVED = st.one_of(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(["created", "updated", "undeleted"]),
        st.dictionaries(st.sampled_from(["Name", "Phone"]), st.sampled_from([None, "x", "y"])),
        st.just(0),
    ),
    st.tuples(st.integers(1, 6), st.just("deleted"), st.just({}), st.just(0)),
    st.tuples(
        st.integers(0, 6),
        st.just(READ),
        st.fixed_dictionaries({"Name": st.sampled_from(["x", "z"])}),
        st.integers(7, 9),
    ),
    st.tuples(st.integers(0, 6), st.just(LEFT), st.just({}), st.integers(7, 9)),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(OBSERVED, min_size=1, max_size=8, unique_by=lambda each: (each[0], each[3])))
def test_the_last_link_is_what_the_table_knows_and_notifications_with_what_is_left_of_reads_end_alike(
    given_observations: Sequence[tuple[int, str, dict[str, object], int]],
) -> None:
    observations, known = [], []
    for ms, kind, values, read_at in given_observations:
        stamp = Stamp.of_notification(ms, str(ms).encode(), ms).read_after(read_at)
        observations.append(Observation(stamp, kind, values))
        if kind == LEFT:
            known.append(KnownRecord.of_absence(stamp))
        else:
            known.append(
                KnownRecord.of_read(stamp, values) if kind == READ else KnownRecord.of_notification(stamp, kind, values)
            )
    joined = join(known)
    left_over = [each for each in observations if each.kind not in (READ, LEFT)] + reads_of(joined)
    for column in ("Name", "Phone"):
        value = joined.values[column][1] if column in joined.values else None
        for each_way in (observations, left_over):
            links = value_chain(each_way, column)
            assert (links[-1].value if links else None) == value
            assert bool(links) == (column in joined.values)
