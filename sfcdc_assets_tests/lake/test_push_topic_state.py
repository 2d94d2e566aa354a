"""The state of a PushTopic in its table: what is known comes back as it was, and a position is applied once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.event_channels.push_topics.known_record import BEFORE_ALL, KnownRecord, Stamp, join
from sfcdc_assets.event_channels.push_topics.state_rows import (
    columns_of,
    known_of_events,
    known_of_row,
    state_rows,
    state_schema,
)
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse

CHANNEL = "/topic/Accounts"
FIELDS = [pa.field("Id", pa.string()), pa.field("Name", pa.string()), pa.field("Closed__c", pa.date32())]
A, B = "001000000000001AAA", "001000000000002AAA"


def reported(created: int, kind: str = "updated", position: int = 1, **values: object) -> KnownRecord:
    return KnownRecord.of_notification(Stamp.of_notification(created, str(position).encode(), position), kind, values)


KNOWN = st.lists(
    st.one_of(
        st.builds(
            reported,
            st.integers(-1, 5),
            st.sampled_from(["created", "updated", "deleted", "undeleted"]),
            st.integers(1, 9),
            Name=st.none() | st.text(max_size=3),
            Closed__c=st.none() | st.dates(date(2000, 1, 1)),
        ),
        st.builds(lambda at: KnownRecord.of_read(BEFORE_ALL.read_after(at), {"Name": "r"}), st.integers(1, 9)),
        st.builds(lambda at: KnownRecord.of_absence(BEFORE_ALL.read_after(at)), st.integers(1, 9)),
    ),
    min_size=1,
    max_size=5,
).map(join)


@settings(deadline=None, max_examples=60)
@given(KNOWN)
def test_what_a_row_holds_is_all_that_was_known(known: KnownRecord) -> None:
    (row,) = state_rows({A: known}, state_schema(FIELDS)).to_pylist()
    assert known_of_row(row) == known


def test_rows_are_replaced_by_id_and_the_position_comes_with_them(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    state = PushTopicState.open_or_create(warehouse, "Accounts", FIELDS)
    assert state.applied(CHANNEL) == 0
    first = {A: reported(1, Name="a", Closed__c=date(2026, 1, 2)), B: reported(1, position=2, Name="b")}
    state.commit(first, CHANNEL, 2)
    late = PushTopicState.open_or_create(warehouse, "Accounts", FIELDS)
    state = PushTopicState.open_or_create(warehouse, "Accounts", FIELDS)
    assert state.known([A, B, "other"]) == first
    joined = first[A].joined(reported(5, "deleted", 3))
    state.commit({A: joined}, CHANNEL, 3)
    with pytest.raises(ConcurrentCommit):
        late.commit({B: joined}, CHANNEL, 3)
    again = PushTopicState.open(warehouse, "Accounts")
    assert again is not None
    assert (again.applied(CHANNEL), again.known([A, B])) == (3, {A: joined, B: first[B]})
    assert again.counts() == {"rows": 2, "deleted": 1, "left": 0}
    assert [known for part in again.batches() for known in sorted(part)] in ([A, B], [B, A])
    row = next(row for row in again.table.rows() if row["Id"] == A)
    assert row["_created_date"] == datetime(1970, 1, 1, 0, 0, 0, 5_000, UTC)
    assert (row["Name"], row["_event_type"], row["_is_deleted"]) == ("a", "deleted", True)


def test_a_new_field_widens_the_table_and_older_rows_do_not_know_it(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    PushTopicState.open_or_create(warehouse, "Accounts", FIELDS).commit({A: reported(1, Name="a")}, CHANNEL, 1)
    wider = PushTopicState.open_or_create(warehouse, "Accounts", [*FIELDS, pa.field("Site", pa.string())])
    assert wider.known([A]) == {A: reported(1, Name="a")}
    wider.commit({A: wider.known([A])[A].joined(reported(0, position=2, Site="late"))}, CHANNEL, 2)
    found = PushTopicState.open_or_create(warehouse, "Accounts", FIELDS).known([A])[A]
    assert found.plain_values() == {"Name": "a", "Site": "late"}


def test_a_field_that_a_notification_does_not_carry_is_unknown_and_not_null() -> None:
    row = {
        "position": 1,
        "replay_id": b"7",
        "created_date": datetime(2026, 1, 1, tzinfo=UTC),
        "event_type": "updated",
        "carried_fields": ["Id", "Name"],
        "Id": A,
        "Name": None,
        "Site": None,
    }
    unreadable = {**row, "position": 2, "Id": None, "event_type": None, "carried_fields": None}
    known = known_of_events([row, unreadable], ["Id", "Name", "Site"])
    assert {record_id: each.plain_values() for record_id, each in known.items()} == {A: {"Name": None}}


def test_a_field_of_another_type_and_the_column_beside_it_are_one_field() -> None:
    assert columns_of(["Size__c", "position"], ["Id", "Size__c", "Size__c__double", "position__field", "Other"]) == [
        "Size__c",
        "Size__c__double",
        "position__field",
    ]
