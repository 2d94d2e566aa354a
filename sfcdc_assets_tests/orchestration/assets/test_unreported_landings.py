"""What ticks have landed is reported in sum, now and then while the stream goes on and soon when it rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets.report_interval import EVERY_SECONDS
from sfcdc_assets.orchestration.assets.unreported_landings import QUIET_SECONDS, HeldLandings
from sfcdc_assets.runtime.clock import using
from sfcdc_assets_tests.simulated_clock import SimulatedClock

CHANNEL = "/data/ChangeEvents"
TICK = 5.0


@pytest.fixture
def clock() -> Iterator[SimulatedClock]:
    clock = SimulatedClock()
    with using(clock):
        yield clock


def landed(clock: SimulatedClock, position: int, waited: float = 1.0, **events: int) -> LandingReport:
    oldest = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) - timedelta(seconds=waited)
    return LandingReport(
        CHANNEL, Counter(events), dict.fromkeys(events, oldest), deliveries=sum(events.values()), position=position
    )


def test_on_a_stream_that_goes_on_each_entity_is_reported_now_and_then_with_all_that_came(
    clock: SimulatedClock,
) -> None:
    held, found, channels = HeldLandings(), [], []
    ticks = int(3 * EVERY_SECONDS / TICK)
    for number in range(ticks):
        clock.sleep(TICK)
        held.add(landed(clock, number, waited=30.0 if number == 7 else 1.0, Account=2))
        found.append(held.take_entities(at_once=False))
        channels.append(held.take_channel(at_once=False))
    found.append(held.take_entities(at_once=True))
    channels.append(held.take_channel(at_once=True))
    reports = [each for each in found if each is not None]
    assert len(reports) == 4
    assert found[0] is not None, "the first one at once"
    assert sum(report.events["Account"] for report, _ in reports) == 2 * ticks
    assert [round(lags["Account"]) for _, lags in reports] == [1, 30, 1, 1], "of the change that waited longest, then"
    assert reports[-1][0].position == ticks - 1
    assert sum(report.deliveries for report in channels if report is not None) == 2 * ticks
    assert len([report for report in channels if report is not None]) == 4


def test_what_is_held_is_due_soon_after_the_last_event(clock: SimulatedClock) -> None:
    held = HeldLandings()
    for number in range(2):
        held.add(landed(clock, number, Account=1))
        taken = held.take_entities(at_once=False)
        assert (taken is not None) == (number == 0)
    assert not held.has_due_events
    clock.sleep(QUIET_SECONDS)
    held.add(landed(clock, 1))
    assert held.has_due_events
    taken = held.take_entities(at_once=False)
    assert taken is not None
    assert taken[0].events == Counter(Account=1)
    assert not held.has_due_events


def test_a_lost_checkpoint_is_reported_at_once(clock: SimulatedClock) -> None:
    held = HeldLandings()
    held.add(landed(clock, 1, Account=1))
    assert held.take_channel(at_once=False) is not None
    held.add(LandingReport(CHANNEL, position=1, lost_checkpoint="expired"))
    taken = held.take_channel(at_once=False)
    assert taken is not None
    assert taken.lost_checkpoint == "expired"
