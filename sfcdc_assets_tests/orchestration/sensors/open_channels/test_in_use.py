"""Ticks that overlap, and settings and warehouses that change between ticks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channel import ChannelInUse
from sfcdc_assets.orchestration.sensors.open_channels import FORGOTTEN_SECONDS
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed, streams_end
from sfcdc_assets_tests.orchestration.sensors.held_tick import HeldTick
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream


def test_a_tick_in_progress_is_never_closed_under_its_feet(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.tick()
    held = HeldTick(server, monkeypatch)
    weather.update(2)
    for _ in range(6):
        weather.clock.advance(60_000)
        weather.wait_until_the_org_is_idle()
    assert not held.opened.is_forgotten(FORGOTTEN_SECONDS)
    assert weather.server.service.open_streams == 1
    held.let_go()
    assert held.failures == []
    assert_landed(weather, 1, 2)
    assert server.channels.names == (CHANNEL,)
    weather.clock.advance(100_000)
    assert not held.opened.is_forgotten(FORGOTTEN_SECONDS)
    assert weather.server.service.open_streams == 1  # two minutes count from the end of the tick


def test_a_channel_closed_during_a_tick_ends_with_that_tick_and_nothing_stays_open(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.tick()
    held = HeldTick(server, monkeypatch)
    server.channels.close()
    weather.update(2)
    weather.wait_until_the_org_is_idle()
    assert weather.server.service.open_streams == 1
    held.let_go()
    assert held.failures == []
    streams_end(weather)
    with pytest.raises(ChannelInUse, match="closed"):
        tick(ASSETS, server.instance, CHANNEL, held.opened, TICK)
    assert weather.server.service.open_streams == 0
    assert_landed(weather, 1, 2)


def test_a_tick_that_meets_another_one_at_work_fails_at_once_and_says_so(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldTick(server, monkeypatch)
    weather.clock.advance(65_000)
    with pytest.raises(ChannelInUse, match="65 s"):
        tick(ASSETS, server.instance, CHANNEL, server.open(), TICK)
    held.let_go()
    assert held.failures == []


def test_another_warehouse_reopens_the_channel_and_only_one_stream_is_left(
    weather: Stream, server: CodeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.tick()
    first = server.open()
    assert server.open() is first
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(tmp_path / "another"))
    server.tick()
    assert server.open() is not first
    assert not first.reader.is_open
    eventually(lambda: weather.server.service.open_streams == 1, "the first stream to end")
    for folder in ("warehouse", "another"):
        weather.root = tmp_path / folder
        assert_landed(weather, 1)


def test_settings_that_changed_reopen_the_channel_even_while_the_tick_before_is_at_work(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.tick()
    held = HeldTick(server, monkeypatch)
    monkeypatch.setenv("SFCDC_SETTLE_SECONDS", "3")
    opened = server.open()
    assert opened is not held.opened
    assert opened.settings.settle_seconds == 3
    held.let_go()
    assert held.failures == []
    assert not held.opened.reader.is_open
    weather.update(2)
    server.tick()
    weather.pass_time(4)
    assert "all is applied" not in str(server.tick().skip_reason)
    assert weather.checkpoint().complete_position == 2
    assert weather.server.service.open_streams == 1
