"""Channels that no tick asks for are closed, and opened again by the next tick."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed, streams_end
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream


def test_a_channel_that_no_tick_asks_for_is_closed_after_two_minutes_and_opened_by_the_next_tick(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    server.ticks(20)
    weather.pass_time(119)
    server.tick()
    weather.pass_time(119)
    assert weather.server.service.open_streams == 1
    weather.pass_time(32)  # it is looked at every thirty seconds
    streams_end(weather)
    assert server.channels.names == ()
    weather.update(2)
    weather.update(3)
    weather.pass_time(3600)
    server.ticks(20)
    assert weather.server.service.open_streams == 1
    assert_landed(weather, 1, 2, 3)
    assert weather.delivered == 4  # the last replay id before the break was open and came again


def test_a_channel_is_forgotten_each_time_and_not_only_the_first(weather: Stream, server: CodeServer) -> None:
    for number in range(4):
        weather.update(number)
        server.ticks(15)
        assert server.channels.names == (CHANNEL,)
        weather.pass_time(160)
        streams_end(weather)
        eventually(lambda: server.channels.names == (), "the channel to be forgotten")
    assert_landed(weather, *range(4))


def test_one_channel_that_cannot_be_closed_does_not_keep_the_others_open(
    weather: Stream, start: Callable[[], CodeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    bad = server.open()
    server.tick()
    good = server.open("/data/AccountChangeEvent")
    good.reader.land(TICK)
    assert weather.server.service.subscribed_streams == 2
    with monkeypatch.context() as patch:
        patch.setattr(bad.reader, "drop", refuse)
        patch.setattr(bad.reader, "close", refuse)
        weather.clock.advance(160_000)
        eventually(lambda: not good.reader.is_open, "the other channel to be closed")
    bad.reader.drop()
    weather.update(1)
    server.ticks(15)
    weather.clock.advance(160_000)
    streams_end(weather)  # the watcher has survived


def refuse() -> None:
    raise RuntimeError("this stream does not close")
