"""A server that goes away with its streams, and a network that is slow: every event is landed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets_tests.pipeline.stream import Stream, stream


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path) as opened:
        yield opened


def test_a_reader_whose_server_goes_away_reads_on_after_what_it_has(weather: Stream) -> None:
    reader = weather.reader()
    weather.update(1)
    weather.tick(reader)
    weather.server.faults.arm(Fault.GOAWAY, seconds=0)
    weather.update(2)
    weather.disown(reader)
    for _ in range(20):
        try:
            weather.poll_until_settled()
            break
        except PubSubUnavailable:
            continue
    weather.update(3)
    weather.poll_until_settled()
    assert weather.server.faults.struck(Fault.GOAWAY) == 1
    assert weather.records_landed()[-3:] == weather.ids(1, 2, 3)
    assert [row["position"] for row in weather.landed()] == [1, 2, 3]


def test_events_of_a_slow_network_are_landed_once(weather: Stream) -> None:
    weather.server.faults.arm(Fault.SLOW_NETWORK, 3, seconds="0.2")
    for number in range(5, 10):
        weather.update(number)
    weather.poll_until_settled()
    assert weather.records_landed() == weather.ids(*range(5, 10))
    assert weather.delivered == 5
    assert weather.server.faults.struck(Fault.SLOW_NETWORK) >= 1
