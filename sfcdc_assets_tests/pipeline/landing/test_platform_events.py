"""Platform events land typed, over either protocol, each once: the tables are what the org says that was published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.channel_kinds import table_of
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

ORDERS = "/event/Order_Event__e"
NOTES = "/event/Note__e"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)
BOTH = pytest.mark.parametrize("transport", ["pubsub", "cometd"])


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=2) as opened:
        fields = [
            {"Text__c": {"type": "string"}},
            {"Size__c": {"type": "double"}},
            {"Due__c": {"type": "date"}},
            {"At__c": {"type": "datetime"}},
            {"Done__c": {"type": "boolean"}},
        ]
        opened.org.platform_events.define(
            event_definition({"name": "Note__e", "label": "Note", "key_prefix": "e05", "fields": fields})
        )
        yield opened


def land(org: Stream, channel: str, transport: str = "pubsub") -> LandingReport:
    """One reading by a process of its own, which ends without saying goodbye."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SFCDC_TRANSPORT", transport)
        with connect(load_settings()) as connected:
            reader = ChannelReader(org.warehouse, connected, channel, SETTLE)
            try:
                return reader.land(QUICK)
            finally:
                reader.drop()


def rows(org: Stream, channel: str) -> list[dict[str, Any]]:
    return landed_rows(org.warehouse, channel)


def publish(org: Stream, name: str, **values: Any) -> None:
    org.server.publisher.publish(name, values)


@BOTH
def test_values_are_typed_by_the_schema_and_tell_when_they_were_published(org: Stream, transport: str) -> None:
    values = {"Text__c": "Zürich", "Size__c": 1.5, "Due__c": "2024-02-29", "At__c": "2024-01-02T03:04:05.678Z"}
    publish(org, "Note__e", **values, Done__c=True)
    publish(org, "Note__e")
    assert land(org, NOTES, transport).count == 2
    full, empty = rows(org, NOTES)
    assert (full["Text__c"], full["Size__c"], str(full["Due__c"]), full["Done__c"]) == (
        "Zürich",
        1.5,
        "2024-02-29",
        True,
    )
    assert full["At__c"] == datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC)
    assert [empty[name] for name in ("Text__c", "Size__c", "Due__c", "At__c")] == [None] * 4
    published = org.server.publisher.published()
    assert [row["event_id"] for row in (full, empty)] == [each.event_id for each in published]
    assert all(row["created_date"] == row["CreatedDate"] is not None for row in (full, empty))
    assert {row["event_name"] for row in (full, empty)} == {"Note__e"}
    assert all(row["_problem"] is None and row["_rescued_data"] is None and row["_delivered"] for row in (full, empty))


@BOTH
def test_a_schema_that_changes_in_mid_stream_is_followed(org: Stream, transport: str) -> None:
    publish(org, "Note__e", Text__c="before")
    land(org, NOTES, transport)
    org.org.platform_events.add_field("Note__e", "Color__c", {"type": "string"})
    org.org.platform_events.drop_field("Note__e", "Size__c")
    publish(org, "Note__e", Text__c="after", Color__c="red")
    org.org.platform_events.add_field("Note__e", "Size__c", {"type": "string"})
    publish(org, "Note__e", Text__c="again", Size__c="large")
    assert land(org, NOTES, transport).count == 2
    found = [(row["Text__c"], row["Color__c"], row["Size__c"], row["Size__c__string"]) for row in rows(org, NOTES)]
    assert found == [("before", None, None, None), ("after", "red", None, None), ("again", None, None, "large")]
    assert len({row["schema_id"] for row in rows(org, NOTES)}) == 3


@BOTH
def test_an_event_that_was_published_twice_is_one_row_and_one_that_cannot_be_read_keeps_its_bytes(
    org: Stream, transport: str
) -> None:
    org.server.faults.arm(Fault.DUPLICATE)
    publish(org, "Order_Event__e", Order_Number__c="1")
    org.server.faults.arm(Fault.GARBLED_BODY)
    publish(org, "Order_Event__e", Order_Number__c="2")
    publish(org, "Order_Event__e", Order_Number__c="3")
    assert land(org, ORDERS, transport).count == 3
    first, garbled, last = rows(org, ORDERS)
    assert (first["Order_Number__c"], garbled["Order_Number__c"], last["Order_Number__c"]) == ("1", None, "3")
    assert garbled["_problem"]
    assert garbled["_delivered"]
    assert land(org, ORDERS, transport).count == 0


def test_both_protocols_land_the_same_rows_whatever_the_values_are(org: Stream) -> None:
    dice = Random(4)
    texts = ["", "a", "Zürich", "\U0001f600", " x ", None]
    days = ["1700-03-01", "1970-01-01", "2024-02-29", None]
    moments = ["1969-12-31T23:59:59.999Z", "2024-01-02T03:04:05.678Z", None]
    for _ in range(60):
        values = {
            "Text__c": dice.choice(texts),
            "Size__c": dice.choice([0, -1.5, 1e15, 0.1, None]),
            "Due__c": dice.choice(days),
            "At__c": dice.choice(moments),
            "Done__c": dice.choice([True, False]),
        }
        publish(org, "Note__e", **{name: value for name, value in values.items() if value is not None})
    found = []
    for transport in ("pubsub", "cometd"):
        assert land(into(org, org.root / transport), NOTES, transport).count == 60
        of_wire = {"replay_id", "received_at", "_delivered"}
        table = Table.open(Warehouse(str(org.root / transport)), table_of(NOTES))
        assert table is not None
        landed = table.scan().sort_by("position").to_pylist()
        found.append([{name: value for name, value in row.items() if name not in of_wire} for row in landed])
    assert found[0] == found[1]


def into(org: Stream, root: Path) -> Stream:
    """The same org, landed into another warehouse."""
    return Stream(org.org, org.clock, org.server, org.connected, root)


def test_publishers_that_number_their_events_anew_lose_none(org: Stream) -> None:
    publisher = org.server.publisher
    definition = org.org.platform_events.all["Order_Event__e"]
    for _ in range(2):
        for number in ("1", "2"):
            draft = publisher.draft(definition, {"Order_Number__c": number}, org.org.users.integration)
            publisher.store([replace(draft, event_id=number)])
        org.clock.advance(3_600_000)
    assert land(org, ORDERS).count == 4
    assert [row["event_id"] for row in rows(org, ORDERS)] == ["1", "2", "1", "2"]


def test_the_table_goes_on_when_the_protocol_is_changed_and_has_each_event_once(org: Stream) -> None:
    for number, transport in enumerate(("pubsub", "cometd", "pubsub", "cometd")):
        publish(org, "Order_Event__e", Order_Number__c=str(number), Amount__c=0.1 + number)
        report = land(org, ORDERS, transport)
        assert report.count == 1
        assert bool(report.lost_checkpoint) is (number > 0)
    assert [row["Order_Number__c"] for row in rows(org, ORDERS)] == ["0", "1", "2", "3"]


def test_a_lost_place_is_read_again_from_the_earliest_event_however_little_of_the_allowance_is_left(
    org: Stream,
) -> None:
    """No read of the org brings what a stream that is begun with new events alone has passed over."""
    publish(org, "Order_Event__e", Order_Number__c="1")
    assert land(org, ORDERS, "pubsub").count == 1
    publish(org, "Order_Event__e", Order_Number__c="2")
    org.org.settings = replace(org.org.settings, daily_event_deliveries=1_000)
    org.server.meter.delivered(range(850))  # to other subscribers
    assert land(org, ORDERS, "cometd").count == 1
    assert [row["Order_Number__c"] for row in rows(org, ORDERS)] == ["1", "2"]


def test_a_custom_channel_is_one_table_in_which_each_row_says_which_event_it_is(org: Stream) -> None:
    org.org.channels.create("Orders__chn", kind="event")
    for name in ("Order_Event__e", "Note__e"):
        org.org.channels.add_member("Orders__chn", name)
    publish(org, "Order_Event__e", Order_Number__c="1")
    publish(org, "Note__e", Text__c="x")
    channel = "/event/Orders__chn"
    assert land(org, channel).count == 2
    found = [(row["position"], row["event_name"], row["Order_Number__c"], row["Text__c"]) for row in rows(org, channel)]
    assert found == [(1, "Order_Event__e", "1", None), (2, "Note__e", None, "x")]


def test_columns_that_are_private_are_left_out_or_hashed_and_the_bytes_are_not_kept(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", "Note__e.Text__c")
    monkeypatch.setenv("SFCDC_HASH", "Note__e.Size__c")
    monkeypatch.setenv("SFCDC_HASH_KEY", "a long key for a test")
    publish(org, "Note__e", Text__c="secret", Size__c=7.0)
    publish(org, "Order_Event__e", Order_Number__c="1")
    land(org, NOTES)
    land(org, ORDERS)
    (row,) = rows(org, NOTES)
    assert "Text__c" not in row
    assert isinstance(row["Size__c"], str)
    assert row["Size__c"] != "7"
    assert row["_delivered"] is None
    assert rows(org, ORDERS)[0]["_delivered"] is not None
