"""Stored events: order, replay ids, retention, durability."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from sfcdc_assets.emulator.errors import ReplayIdCorruptedError, ReplayIdMissingError
from sfcdc_assets.emulator.events.delivery_meter import WINDOW_MS, DeliveryMeter
from sfcdc_assets.emulator.events.event_bus import RETENTION_MS, EventBus
from sfcdc_assets.emulator.events.event_store import StoredEvent
from sfcdc_assets.emulator.events.replay_id import next_counter, replay_counter, replay_id
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset
from sfcdc_assets_tests.eventually import BOUND_SECONDS

EARLIEST, LATEST, CUSTOM = ReplayPreset.EARLIEST, ReplayPreset.LATEST, ReplayPreset.CUSTOM
HOUR = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=clock, seed=9)
    yield org
    org.close()


@pytest.fixture
def bus(org: EmulatedOrg) -> EventBus:
    return EventBus(org)


def create(org: EmulatedOrg, count: int = 1, entity: str = "Account", **values: object) -> None:
    for _ in range(count):
        with org.transaction() as work:
            work.create(entity, {"Name": "a"} | values if entity == "Account" else values)


def everything(bus: EventBus, org: EmulatedOrg, after: int = 0) -> list[StoredEvent]:
    batch = bus.read(org.definitions, after=after, max_events=10_000, max_bytes=10**9)
    return list(batch.events)


def test_a_replay_id_is_ten_bytes_and_is_accepted_cut_to_eight() -> None:
    assert replay_id(0x179050).hex() == "00000000001790500000"
    assert replay_counter(replay_id(0x179050)) == 0x179050
    assert replay_counter(replay_id(0x179050)[:8]) == 0x179050
    assert replay_counter(b"1234567") is None
    assert replay_counter(replay_id(5)[:8] + b"\x00\x01") is None


def test_the_counter_grows_by_gaps_that_follow_from_the_seed() -> None:
    counters = [1_000_000]
    for _ in range(500):
        counters.append(next_counter(1, counters[-1]))
    gaps = {later - earlier for earlier, later in pairwise(counters)}
    assert min(gaps) >= 1
    assert len(gaps) > 3
    assert next_counter(1, counters[10]) == counters[11]


def test_events_come_in_commit_order_with_growing_ids_that_are_not_contiguous(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 30)
    events = everything(bus, org)
    counters = [event.counter for event in events]
    assert len(events) == 30
    assert counters == sorted(set(counters))
    assert counters[-1] - counters[0] > 29
    assert len({event.event_id for event in events}) == 30


def test_the_newest_id_is_ahead_of_the_last_event(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 3)
    assert bus.latest_replay_id() > everything(bus, org)[-1].replay_id


def test_an_id_that_runs_ahead_is_named_only_when_nothing_is_left_to_read(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 3)
    part = bus.read(org.definitions, after=0, max_events=2, max_bytes=10**9)
    assert part.latest_replay_id == part.events[-1].replay_id
    rest = bus.read(org.definitions, after=part.through, max_events=2, max_bytes=10**9)
    assert len(rest.events) == 1
    assert rest.latest_replay_id == bus.latest_replay_id()
    create(org)
    after_the_rest = bus.start(CUSTOM, rest.latest_replay_id)
    assert [event.number for event in everything(bus, org, after_the_rest)] == [4]


def test_records_that_were_there_before_the_bus_are_not_published(org: EmulatedOrg) -> None:
    create(org, 2)
    bus = EventBus(org)
    create(org)
    assert len(everything(bus, org)) == 1


def test_a_rolled_back_transaction_publishes_nothing_and_loses_nothing_later(org: EmulatedOrg, bus: EventBus) -> None:
    def fail(transaction: object) -> None:
        raise RuntimeError("the last listener failed")

    org.subscribe_commits(fail)
    with pytest.raises(RuntimeError):
        create(org)
    org._listeners.remove(fail)
    empty = bus.read(org.definitions, after=0, max_events=10, max_bytes=10**9)
    assert empty.events == ()
    create(org)
    assert len(everything(bus, org, after=empty.through)) == 1


def test_custom_starts_strictly_after_its_id_in_both_forms(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 5)
    events = everything(bus, org)
    for form in (events[2].replay_id, events[2].replay_id[:8]):
        assert everything(bus, org, bus.start(CUSTOM, form)) == events[3:]


def test_latest_starts_at_the_tip_and_earliest_at_the_oldest_event(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 2)
    latest = bus.start(LATEST)
    create(org)
    assert len(everything(bus, org, latest)) == 1
    assert len(everything(bus, org, bus.start(EARLIEST))) == 3


def test_custom_without_an_id_is_refused(bus: EventBus) -> None:
    with pytest.raises(ReplayIdMissingError):
        bus.start(CUSTOM)


@pytest.mark.parametrize("replay", [b"garbage", b"\xff" * 8 + b"\x00\x00", replay_id(5)])
def test_an_id_that_is_malformed_or_of_another_stream_is_corrupted(
    org: EmulatedOrg, bus: EventBus, replay: bytes
) -> None:
    create(org)
    with pytest.raises(ReplayIdCorruptedError, match="EARLIEST"):
        bus.start(CUSTOM, replay)


def test_events_older_than_72_hours_are_gone_and_their_ids_are_corrupted(
    org: EmulatedOrg, bus: EventBus, clock: ManualClock
) -> None:
    create(org, 2)
    old = everything(bus, org)
    clock.advance(RETENTION_MS - 1)
    assert bus.start(CUSTOM, old[0].replay_id) == 1
    clock.advance(2)
    for event in old:
        with pytest.raises(ReplayIdCorruptedError):
            bus.start(CUSTOM, event.replay_id)
    create(org)
    assert len(everything(bus, org, bus.start(EARLIEST))) == 1
    with pytest.raises(ReplayIdCorruptedError):
        bus.start(CUSTOM, old[1].replay_id)


def test_expired_events_are_purged_and_stay_refused_afterwards(
    org: EmulatedOrg, bus: EventBus, clock: ManualClock
) -> None:
    create(org, 2)
    old = everything(bus, org)
    clock.advance(RETENTION_MS + HOUR)
    create(org)
    assert [event.number for event in everything(bus, org)] == [3]
    with pytest.raises(ReplayIdCorruptedError):
        bus.start(CUSTOM, old[1].replay_id)


def test_one_objects_events_are_read_alone(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 2)
    create(org, 3, "Contact", LastName="c")
    batch = bus.read({"Contact"}, after=0, max_events=100, max_bytes=10**9)
    assert {event.entity for event in batch.events} == {"Contact"}
    assert len(batch.events) == 3
    assert bus.read(set(), after=0, max_events=100, max_bytes=10**9).events == ()


def test_a_batch_ends_at_its_bytes_but_holds_at_least_one_event(org: EmulatedOrg, bus: EventBus) -> None:
    create(org, 3, Description="x" * 5_000)
    size = len(everything(bus, org)[0].payload)
    assert len(bus.read({"Account"}, after=0, max_events=9, max_bytes=2 * size + 100).events) == 2
    assert len(bus.read({"Account"}, after=0, max_events=9, max_bytes=1).events) == 1


def test_a_restarted_org_serves_the_same_events_and_goes_on(tmp_path: Path, clock: ManualClock) -> None:
    first = EmulatedOrg(tmp_path, clock=clock, seed=2)
    bus = EventBus(first)
    create(first, 3)
    events, tip = everything(bus, first), bus.latest_replay_id()
    first.close()
    second = EmulatedOrg(tmp_path, clock=clock)
    bus = EventBus(second)
    assert everything(bus, second) == events
    assert bus.latest_replay_id() == tip
    create(second)
    assert everything(bus, second)[-1].counter > events[-1].counter
    second.close()


def test_what_was_committed_while_no_bus_listened_is_published_when_one_starts(
    tmp_path: Path, clock: ManualClock
) -> None:
    first = EmulatedOrg(tmp_path, clock=clock)
    EventBus(first)
    first.close()
    second = EmulatedOrg(tmp_path, clock=clock)
    create(second, 2)
    assert len(everything(EventBus(second), second)) == 2
    second.close()


def test_two_buses_of_one_org_publish_a_transaction_once_and_both_notice(org: EmulatedOrg, bus: EventBus) -> None:
    second = EventBus(org)
    create(org, 2)
    assert len(everything(bus, org)) == 2
    assert (bus.last_number, second.last_number) == (2, 2)


def test_a_waiter_wakes_up_when_an_event_is_published(org: EmulatedOrg, bus: EventBus) -> None:
    with bus.changed:
        thread = threading.Thread(target=create, args=(org,))
        thread.start()
        assert bus.changed.wait_for(lambda: bus.last_number > 0, timeout=BOUND_SECONDS)
    thread.join(BOUND_SECONDS)


def test_a_schema_is_found_by_its_id_before_and_after_its_object_changed(org: EmulatedOrg, bus: EventBus) -> None:
    old = bus.newest_schema_id("Account")
    account = org.definitions["Account"]
    org.replace_definition(account.with_fields(account.fields[:-1]))
    new = bus.newest_schema_id("Account")
    assert new != old
    assert bus.schema_json(old) != bus.schema_json(new)
    assert bus.schema_json("A" * 22) is None


def test_deliveries_are_counted_over_a_rolling_day(clock: ManualClock) -> None:
    meter = DeliveryMeter(clock)
    meter.delivered([1, 2])
    clock.advance(WINDOW_MS // 2)
    meter.delivered([2, 3, 4])
    assert meter.in_last_24_hours() == 5
    assert meter.more_than_once() == {2: 2}
    clock.advance(WINDOW_MS // 2)
    assert meter.in_last_24_hours() == 3
    assert meter.more_than_once() == {}
    assert meter.total == 5
