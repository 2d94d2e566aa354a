"""What ticks have landed is reported in sum, now and then while the stream goes on and soon when it rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets.report_interval import EVERY_SECONDS
from sfcdc_assets.orchestration.assets.unreported_landings import ALIVE_SECONDS, QUIET_SECONDS, HeldLandings
from sfcdc_assets.runtime.clock import using
from sfcdc_assets_tests.simulated_clock import SimulatedClock

CHANNEL = "/data/ChangeEvents"
TICK = 5.0


@pytest.fixture
def clock() -> Iterator[SimulatedClock]:
    clock = SimulatedClock()
    with using(clock):
        yield clock


def landed(position: int, waited: float = 1.0, **events: int) -> LandingReport:
    return LandingReport(
        CHANNEL, Counter(events), dict.fromkeys(events, waited), deliveries=sum(events.values()), position=position
    )


def test_on_a_stream_that_goes_on_each_entity_is_reported_now_and_then_with_all_that_came(
    clock: SimulatedClock,
) -> None:
    held, found, channels = HeldLandings(), [], []
    ticks = int(3 * EVERY_SECONDS / TICK)
    for number in range(ticks):
        clock.sleep(TICK)
        held.add(landed(number, waited=30.0 if number == 7 else 1.0, Account=2))
        found.append(held.take_entities(at_once=False))
        channels.append(held.take_channel(at_once=False))
    found.append(held.take_entities(at_once=True))
    channels.append(held.take_channel(at_once=True))
    reports = [each for each in found if each is not None]
    assert len(reports) == 4
    assert found[0] is not None, "the first one at once"
    assert sum(report.events["Account"] for report in reports) == 2 * ticks
    assert [round(report.waited["Account"]) for report in reports] == [1, 30, 1, 1], (
        "of the change that waited longest, then"
    )
    assert reports[-1].position == ticks - 1
    assert sum(report.deliveries for report in channels if report is not None) == 2 * ticks
    assert len([report for report in channels if report is not None]) == 4


def test_what_is_held_is_due_soon_after_the_last_event(clock: SimulatedClock) -> None:
    held = HeldLandings()
    for number in range(2):
        held.add(landed(number, Account=1))
        taken = held.take_entities(at_once=False)
        assert (taken is not None) == (number == 0)
    assert not held.has_due_events
    clock.sleep(QUIET_SECONDS)
    held.add(landed(1))
    assert held.has_due_events
    taken = held.take_entities(at_once=False)
    assert taken is not None
    assert taken.events == Counter(Account=1)
    assert not held.has_due_events


def test_a_channel_that_rests_is_reported_once_and_then_as_a_sign_of_life_alone(clock: SimulatedClock) -> None:
    held, found = HeldLandings(), []
    held.add(landed(2, Account=1))
    found.append(held.take_channel(at_once=False))
    clock.sleep(TICK)
    held.add(landed(3, Account=1))
    for _ in range(int(1.5 * ALIVE_SECONDS / TICK)):
        clock.sleep(TICK)
        held.add(LandingReport(CHANNEL, position=3, complete_position=3))
        found.append(held.take_channel(at_once=False))
    reports = [each for each in found if each is not None]
    assert [each.count for each in reports] == [1, 1, 0]
    assert [each.is_complete for each in reports] == [False, True, True]


def test_the_end_of_a_transaction_is_reported_although_nothing_landed_with_it(clock: SimulatedClock) -> None:
    held = HeldLandings()
    held.add(landed(2, Account=1))
    assert held.take_channel(at_once=False) is not None
    clock.sleep(QUIET_SECONDS)
    held.add(LandingReport(CHANNEL, position=2, complete_position=2))
    taken = held.take_channel(at_once=False)
    assert taken is not None
    assert taken.is_complete


def test_a_lost_checkpoint_is_reported_at_once(clock: SimulatedClock) -> None:
    held = HeldLandings()
    held.add(landed(1, Account=1))
    assert held.take_channel(at_once=False) is not None
    held.add(LandingReport(CHANNEL, position=1, lost_checkpoint="expired"))
    taken = held.take_channel(at_once=False)
    assert taken is not None
    assert taken.lost_checkpoint == "expired"
