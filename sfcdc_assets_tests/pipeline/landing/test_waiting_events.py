"""More events than one request asks for wait in the service: its silence is ours, and proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream, stream

__all__ = ["no_settings_but_the_tests_own"]


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=250) as opened:
        yield opened


def one_transaction(weather: Stream, count: int) -> None:
    """So many events in one transaction."""
    with weather.org.transaction() as work:
        for number in range(count):
            work.update("Account", weather.accounts[number], {"Phone": str(number)})


def test_a_tick_lands_all_that_waits_and_not_only_what_was_asked_for(weather: Stream) -> None:
    reader = weather.reader()
    weather.tick(reader)
    one_transaction(weather, 250)
    weather.pass_time(3)
    weather.tick(reader)
    assert len(weather.landed()) == 250
    assert weather.delivered == 250


@pytest.mark.parametrize("seconds", [SETTLE + 2, 60.0, 200.0])
def test_half_a_transaction_is_not_complete_because_nobody_asked_for_the_rest(weather: Stream, seconds: float) -> None:
    """The service may send a hundred events. A tick that comes long after finds them, and a silence that says nothing:
    the rest was not asked for."""
    reader = weather.reader()
    weather.tick(reader)
    one_transaction(weather, 250)
    weather.pass_time(seconds)
    report = weather.tick(reader)
    assert report.complete_position in (0, 250)
    for _ in range(6):
        weather.pass_time(SETTLE / 2)
        report = weather.tick(reader)
        assert report.complete_position in (0, 250)
    assert report.complete_position == 250
