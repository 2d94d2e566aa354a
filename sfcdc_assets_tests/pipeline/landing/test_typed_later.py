"""Events whose fields the org does not tell land as they were delivered, once, and are typed when it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.event_channels.typed_event import EventReader, NotKnownYet
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing import event_landing, retype_events
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import TICK, PollTimeouts
from sfcdc_assets.landing.retype_events import type_waiting
from sfcdc_assets.landing.run_lander import land_by
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

pytestmark = pytest.mark.slow

TOPIC, ORDERS = "/topic/Energetic", "/event/Order_Event__e"
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=20.0)
HOUR = 3_600.0


@pytest.fixture
def org(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=5) as opened:
        query = "SELECT Id, Name, Industry, BillingCity, AnnualRevenue FROM Account"
        topic = {"Name": "Energetic", "Query": query, "ApiVersion": 52.0}
        opened.server.cometd.topics.push_topics.create(topic)
        yield opened


def rows(org: Stream, channel: str) -> list[dict[str, Any]]:
    return landed_rows(org.warehouse, channel)


def land(org: Stream, channel: str) -> LandingReport:
    """One reading by a process of its own, which knows nothing of the org."""
    with connect(load_settings()) as connected:
        reader = ChannelReader(org.warehouse, connected, channel, SETTLE)
        try:
            return land_by(reader, QUICK, None)
        finally:
            reader.drop()


def untyped_from(org: Stream, channel: str) -> int:
    table = EventTable.open(org.warehouse, channel)
    assert table is not None
    return table.untyped_from(channel)


def test_a_topics_notifications_land_while_no_request_is_left_and_are_typed_when_some_are(org: Stream) -> None:
    land(org, TOPIC)
    settings = org.org.settings
    org.org.settings = replace(settings, daily_api_requests=1)
    org.update(1, AnnualRevenue=12)
    org.update(2, AnnualRevenue=13)
    assert land(org, TOPIC).count == 2
    assert land(org, TOPIC).count == 0
    waiting = rows(org, TOPIC)
    assert all(row["_problem"] == "not known yet: the object of the topic" and row["_delivered"] for row in waiting)
    assert "AnnualRevenue" not in waiting[0]
    assert fold_topic(org.warehouse, TOPIC).to_position == 0
    assert untyped_from(org, TOPIC) == 1
    clock.sleep(26 * HOUR)
    org.org.settings = settings
    org.update(3, AnnualRevenue=14)
    land(org, TOPIC)
    clock.sleep(HOUR)
    org.update(4, AnnualRevenue=15)
    land(org, TOPIC)
    found = rows(org, TOPIC)
    assert [row["position"] for row in found] == [1, 2, 3, 4]
    assert [(row["Id"], row["AnnualRevenue"]) for row in found] == list(
        zip(org.ids(1, 2, 3, 4), [12.0, 13.0, 14.0, 15.0], strict=True)
    )
    assert all(row["_problem"] is None for row in found)
    assert untyped_from(org, TOPIC) == 0
    assert fold_topic(org.warehouse, TOPIC).records == 4
    assert PushTopicState.open(org.warehouse, "Energetic") is not None


def test_a_platform_event_whose_schema_cannot_be_had_lands_once_and_is_typed_later_and_no_other_kind_waits(
    org: Stream,
) -> None:
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    assert land(org, ORDERS).count == 1
    org.server.faults.arm(Fault.DUPLICATE)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "2"})
    assert land(org, ORDERS).count == 1
    assert [row["_problem"][:14] for row in rows(org, ORDERS)] == ["not known yet:"] * 2
    org.server.faults.disarm()
    clock.sleep(HOUR)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "3"})
    land(org, ORDERS)
    clock.sleep(HOUR)
    land(org, ORDERS)
    found = rows(org, ORDERS)
    assert [row["Order_Number__c"] for row in found] == ["1", "2", "3"]
    assert [row["_problem"] for row in found] == [None] * 3
    assert len({row["event_key"] for row in found}) == 3
    assert untyped_from(org, ORDERS) == 0


@pytest.mark.parametrize(("rule", "lands"), [("Contact.Birthdate", 1), ("Order_Event__e.Order_Number__c", 0)])
def test_a_rule_of_privacy_about_another_object_keeps_no_platform_event_from_landing(
    org: Stream, monkeypatch: pytest.MonkeyPatch, rule: str, lands: int
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", rule)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    with nullcontext() if lands else pytest.raises(NotKnownYet):
        assert land(org, ORDERS).count == lands


@pytest.mark.parametrize(("rule", "lands"), [("Contact.Birthdate", 1), ("Account.AnnualRevenue", 0), ("*.Phone", 0)])
def test_a_rule_of_privacy_about_another_object_keeps_no_notification_from_landing_whose_object_was_known_before(
    org: Stream, monkeypatch: pytest.MonkeyPatch, rule: str, lands: int
) -> None:
    land(org, TOPIC)
    org.update(1, AnnualRevenue=12)
    assert land(org, TOPIC).count == 1
    monkeypatch.setenv("SFCDC_EXCLUDE", rule)
    settings = org.org.settings
    org.org.settings = replace(settings, daily_api_requests=1)
    org.update(2, AnnualRevenue=13)
    with nullcontext() if lands else pytest.raises(NotKnownYet):
        assert land(org, TOPIC).count == lands
    assert len(rows(org, TOPIC)) == 1 + lands
    org.org.settings = settings
    clock.sleep(26 * HOUR)
    org.update(3, AnnualRevenue=14)
    land(org, TOPIC)
    is_hidden = rule == "Account.AnnualRevenue"
    found = [row["AnnualRevenue"] for row in rows(org, TOPIC)]
    assert found == [12.0, *([None, None] if is_hidden else [13.0, 14.0])]


def test_what_waits_when_a_rule_of_privacy_is_made_about_it_is_typed_by_the_rule_and_loses_its_bytes(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    assert land(org, ORDERS).count == 1
    org.server.faults.disarm()
    clock.sleep(HOUR)
    monkeypatch.setenv("SFCDC_EXCLUDE", "*.Order_Number__c")
    with connect(load_settings()) as connected:
        ChannelReader(org.warehouse, connected, ORDERS, SETTLE).type_waiting()
    (row,) = rows(org, ORDERS)
    assert (row["event_name"], row["_problem"], row["_delivered"]) == ("Order_Event__e", None, None)
    assert "Order_Number__c" not in row
    assert untyped_from(org, ORDERS) == 0


def test_what_waits_is_typed_by_the_process_that_landed_it_with_the_next_event_that_can_be_read(org: Stream) -> None:
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    reader.land(QUICK)
    org.server.faults.disarm()
    clock.sleep(60)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "2"})
    reader.land(QUICK)
    reader.type_waiting()
    assert [row["Order_Number__c"] for row in rows(org, ORDERS)] == ["1", "2"]


def test_bytes_that_settings_of_privacy_forbid_to_keep_wait_in_the_org(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_EXCLUDE", "*.Order_Number__c")
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    with pytest.raises(NotKnownYet, match="the schema"):
        land(org, ORDERS)
    org.server.faults.disarm()
    clock.sleep(HOUR)
    assert land(org, ORDERS).count == 1
    assert "Order_Number__c" not in rows(org, ORDERS)[0]


@pytest.mark.parametrize("channel", [TOPIC, ORDERS])
def test_one_sync_types_and_folds_what_an_earlier_one_landed_untyped_though_nothing_new_comes(
    org: Stream, monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    def sync() -> None:
        with instance_in_memory() as instance:
            sync_channels(instance, until_caught_up=False, report=lambda _: None)

    monkeypatch.setenv("SFCDC_CHANNELS", channel)
    sync()
    settings = org.org.settings
    org.org.settings = replace(settings, daily_api_requests=1)
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.update(1, AnnualRevenue=12)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    sync()
    assert untyped_from(org, channel) == 1
    org.server.faults.disarm()
    org.org.settings = settings
    clock.sleep(26 * HOUR)
    sync()
    (row,) = rows(org, channel)
    assert row["_problem"] is None
    assert untyped_from(org, channel) == 0
    state = PushTopicState.open(org.warehouse, "Energetic")
    assert (state.applied(TOPIC) if state else 0) == (1 if channel == TOPIC else 0)


# -- while no event can come


def ticks_in_vain(org: Stream, channel: str, count: int) -> None:
    """Ticks of the sensor, a minute apart, by a process that was just started; in each, the stream cannot be read."""
    connected = partial(ASSETS.connect, org.warehouse)
    with instance_in_memory() as instance:
        channels = OpenChannels(tries_at_once=True)
        try:
            for _ in range(count):
                clock.sleep(60)
                opened = channels.of(channel, org.warehouse, load_settings(), connected)
                with pytest.raises(SfcdcError):
                    tick(ASSETS, instance, channel, opened, TICK)
        finally:
            channels.close()


def test_a_topics_notifications_are_typed_and_folded_while_the_stream_fails_for_ever(org: Stream) -> None:
    land(org, TOPIC)
    settings = org.org.settings
    org.org.settings = replace(settings, daily_api_requests=1)
    org.update(1, AnnualRevenue=12)
    assert land(org, TOPIC).count == 1
    org.server.faults.arm(Fault.COMETD_REFUSED, 10**6)
    ticks_in_vain(org, TOPIC, 3)
    assert untyped_from(org, TOPIC) == 1
    org.org.settings = settings
    clock.sleep(26 * HOUR)
    ticks_in_vain(org, TOPIC, 1)
    assert [(row["AnnualRevenue"], row["_problem"]) for row in rows(org, TOPIC)] == [(12.0, None)]
    state = PushTopicState.open(org.warehouse, "Energetic")
    assert state is not None
    assert state.applied(TOPIC) == 1


def test_platform_events_are_typed_while_the_stream_is_refused_for_ever_and_seldom_tried_while_their_schema_is(
    org: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    assert land(org, ORDERS).count == 1
    org.server.faults.arm(Fault.STREAM_REFUSED, 10**6)
    tried = counted_tries(monkeypatch)
    for _ in range(4):  # processes, one after another
        ticks_in_vain(org, ORDERS, 60)
    assert 5 <= len(tried) <= 20, "in four hours"
    org.server.faults.disarm(Fault.SCHEMA_REFUSED)
    ticks_in_vain(org, ORDERS, 62)
    assert [(row["Order_Number__c"], row["_problem"]) for row in rows(org, ORDERS)] == [("1", None)]
    assert untyped_from(org, ORDERS) == 0


def counted_tries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tried: list[str] = []

    def counted(warehouse: Warehouse, channel: str, reader: EventReader) -> int:
        tried.append(channel)
        return type_waiting(warehouse, channel, reader)

    monkeypatch.setattr(event_landing, "type_waiting", counted)
    return tried


def test_where_nothing_waits_no_table_is_opened_to_see_that(org: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    assert reader.land(QUICK).count == 1
    reader.type_waiting()
    monkeypatch.setattr(Table, "open", not_to_be_opened)
    reader.type_waiting()


def not_to_be_opened(*_: object) -> None:
    raise AssertionError("a table is opened")


def test_what_fails_while_events_are_typed_is_nobody_elses_and_is_tried_again_after_pauses(
    org: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    land(org, ORDERS)
    org.server.faults.disarm()
    clock.sleep(HOUR)
    tried: list[str] = []

    def fails(warehouse: Warehouse, channel: str, reader: EventReader) -> int:
        tried.append(channel)
        raise OSError("the disk is full")

    reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    with monkeypatch.context() as patch:
        patch.setattr(event_landing, "type_waiting", fails)
        for _ in range(60):
            clock.sleep(10)
            reader.type_waiting()
    assert 3 <= len(tried) <= 10
    assert "the disk is full" in caplog.text
    clock.sleep(300)
    reader.type_waiting()
    assert untyped_from(org, ORDERS) == 0


# -- what is wrong on our side


@pytest.mark.parametrize("is_restarted", [True, False], ids=["by a new process", "by the process that landed it"])
def test_what_cannot_be_typed_for_a_reason_of_ours_stops_no_landing_and_is_tried_after_growing_pauses(
    org: Stream, monkeypatch: pytest.MonkeyPatch, is_restarted: bool
) -> None:
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    assert reader.land(QUICK).count == 1
    org.server.faults.disarm()
    clock.sleep(HOUR)
    if is_restarted:
        org.disown(reader)
        reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    tried: list[str] = []

    def fails(_: object, channel: str, *__: object) -> None:
        tried.append(channel)
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(retype_events, "_type_file", fails)
        for number in range(2, 17):
            clock.sleep(120)
            org.server.publisher.publish("Order_Event__e", {"Order_Number__c": str(number)})
            org.wait_until_the_org_is_idle()
            # An answer that there is nothing more ends a reading; it may have been sent before the event.
            assert (reader.land(QUICK).count or reader.land(QUICK).count) == 1
            reader.type_waiting()
    assert 5 <= len(tried) <= 12, "in half an hour"
    clock.sleep(300)
    reader.type_waiting()
    assert [row["Order_Number__c"] for row in rows(org, ORDERS)] == [str(number) for number in range(1, 17)]
    assert untyped_from(org, ORDERS) == 0


def test_an_event_that_another_process_has_typed_is_known_when_it_is_published_again(org: Stream) -> None:
    reader = org.adopt(ChannelReader(org.warehouse, org.connected, ORDERS, SETTLE))
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.faults.arm(Fault.DUPLICATE, after=1)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    assert reader.land(QUICK).count == 1
    org.server.faults.disarm()
    clock.sleep(60)
    with connect(load_settings()) as connected:
        ChannelReader(org.warehouse, connected, ORDERS, SETTLE).type_waiting()
    assert untyped_from(org, ORDERS) == 0
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "2"})
    reader.land(QUICK)
    reader.land(QUICK)
    assert [row["Order_Number__c"] for row in rows(org, ORDERS)] == ["1", "2"]


@pytest.mark.parametrize("is_noted_first", [True, False], ids=["noted first", "landed first"])
def test_an_event_that_lands_to_wait_is_not_passed_over_by_who_notes_just_then_that_all_are_typed(
    org: Stream, is_noted_first: bool
) -> None:
    org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    assert land(org, ORDERS).count == 1
    landing, noting = (EventTable.open(org.warehouse, ORDERS) for _ in range(2))
    assert landing is not None
    assert noting is not None
    after = replace(landing.checkpoint(ORDERS), position=2, complete_position=2)
    steps: list[Callable[[], None]] = [
        lambda: landing.land(landing.table.schema.empty_table(), after, "", 1),
        lambda: noting.note_typed(ORDERS, 0),
    ]
    first, second = reversed(steps) if is_noted_first else steps
    first()
    with pytest.raises(ConcurrentCommit):
        second()


@pytest.mark.parametrize("was_typed", [True, False], ids=["typed", "waiting to be typed"])
def test_a_damaged_file_keeps_no_new_event_from_landing_and_what_other_files_have_is_known(
    org: Stream, was_typed: bool
) -> None:
    if not was_typed:
        org.server.faults.arm(Fault.SCHEMA_REFUSED, 10**6)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "1"})
    assert land(org, ORDERS).count == 1
    (damaged,) = (org.warehouse.folder / "platform_events" / "Order_Event__e").glob("*.parquet")
    org.server.faults.arm(Fault.DUPLICATE, after=1)
    org.server.publisher.publish("Order_Event__e", {"Order_Number__c": "2"})
    assert land(org, ORDERS).count == 1
    damaged.write_bytes(b"no Parquet file")
    org.server.faults.disarm()
    for number in (3, 4):
        clock.sleep(60)
        org.server.publisher.publish("Order_Event__e", {"Order_Number__c": str(number)})
        assert land(org, ORDERS).count == 1
    table = EventTable.open(org.warehouse, ORDERS)
    assert table is not None
    kept = [file.path for file in table.table.files() if file.path != damaged.name]
    assert sorted(table.table.read_files(kept, ["position"])["position"].to_pylist()) == [2, 3, 4]
