"""Between a commit and its events on the bus time may pass, and between the events of one transaction too."""

from __future__ import annotations

from sfcdc_assets.emulator.events.event_bus import Batch, EventBus
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.streams.pubsub.proto.pubsub_api_pb2 import ReplayPreset

ENTITIES = ("Account", "Contact")


def read(bus: EventBus, after: int = 0) -> Batch:
    return bus.read(ENTITIES, after=after, max_events=100, max_bytes=10**6)


def test_events_come_in_their_order_when_they_are_published_and_no_answer_runs_ahead_of_them() -> None:
    clock = ManualClock()
    org = EmulatedOrg(clock=clock, seed=3, settings=OrgSettings(publishing_lag=3_000, publishing_spread=4_000))
    org.selected_entities = list(ENTITIES)
    bus = EventBus(org)
    with org.transaction() as work:
        account = work.create("Account", {"Name": "first"})
        work.create("Contact", {"LastName": "last", "AccountId": account})
    clock.advance(1_000)
    with org.transaction() as work:
        work.update("Account", account, {"Name": "after both"})
    assert (read(bus).events, bus.last_number, bus.next_publication) == ((), 0, clock() + 2_000)
    latest = read(bus).latest_replay_id
    clock.advance(2_000)
    (first,) = read(bus).events
    half = read(bus, first.number)
    assert (first.entity, half.events, bus.next_publication) == ("Account", (), clock() + 4_000)
    clock.advance(4_000)
    last, following = read(bus, bus.start(ReplayPreset.CUSTOM, half.latest_replay_id)).events
    assert [last.entity, following.entity] == ["Contact", "Account"]
    assert [first, last, following] == list(read(bus, bus.start(ReplayPreset.CUSTOM, latest)).events)
    again = EventBus(org)
    assert (again.last_number, again.next_publication > clock() + 10**9) == (3, True)
    org.close()


def test_what_is_not_published_when_a_bus_starts_again_comes_at_its_time() -> None:
    clock = ManualClock()
    org = EmulatedOrg(clock=clock, seed=3, settings=OrgSettings(publishing_lag=5_000))
    org.selected_entities = list(ENTITIES)
    EventBus(org)
    with org.transaction() as work:
        work.create("Account", {"Name": "first"})
    bus = EventBus(org)
    assert (bus.last_number, len(read(bus).events)) == (0, 0)
    clock.advance(5_000)
    assert (bus.last_number, len(read(bus).events)) == (1, 1)
    org.close()
