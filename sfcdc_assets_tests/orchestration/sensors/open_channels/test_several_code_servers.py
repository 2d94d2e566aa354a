"""Several processes that evaluate the sensor of one channel, at once or one after another; and how often the org is
asked what does not change."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed, streams_end
from sfcdc_assets_tests.orchestration.sensors.held_tick import joined
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream

pytestmark = pytest.mark.slow


def test_two_code_servers_at_once_land_each_event_once(weather: Stream, start: Callable[[], CodeServer]) -> None:
    first, second = start(), start()
    expected: list[int] = []
    for number in range(12):
        weather.update(number)
        weather.siblings(30, 31, 32)
        expected += [number, 30, 31, 32]
        weather.pass_time(5 if number % 5 else 20)
        (first, second)[number % 2].tick()
        if number % 3 == 0:
            (second, first)[number % 2].tick()
    for each in (first, second):
        each.ticks(20)
    assert_landed(weather, *expected)
    assert weather.checkpoint().complete_position == len(expected)


def test_two_code_servers_that_tick_at_the_same_moment_land_each_event_once(
    weather: Stream, start: Callable[[], CodeServer]
) -> None:
    first, second = start(), start()
    failures: list[BaseException] = []

    def one_tick(of: CodeServer) -> None:
        try:
            tick(ASSETS, of.instance, CHANNEL, of.open(), TICK)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            failures.append(error)

    for number in range(12):
        weather.update(number)
        weather.update(number + 12)
        weather.wait_until_the_org_is_idle()
        threads = [threading.Thread(target=one_tick, args=(each,), daemon=True) for each in (first, second)]
        for thread in threads:
            thread.start()
        joined(*threads, clock=weather.clock)
    assert failures == []
    first.ticks(20)
    assert_landed(weather, *(each for number in range(12) for each in (number, number + 12)))


def test_a_code_server_that_dies_or_is_reloaded_is_followed_by_one_that_goes_on_where_it_was(
    weather: Stream, start: Callable[[], CodeServer]
) -> None:
    old = start()
    for number in range(4):
        weather.update(number)
        old.ticks(5)
    weather.update(4)  # on its way when the process dies
    old.die()
    streams_end(weather)
    weather.update(5)
    new = start()
    new.tick()
    weather.update(6)
    new.ticks(20)
    assert weather.server.service.open_streams == 1
    assert_landed(weather, *range(7))


def test_the_old_process_of_a_reload_is_forgotten_while_the_new_one_lands(
    weather: Stream, start: Callable[[], CodeServer]
) -> None:
    old, new = start(), start()
    weather.update(0)
    old.ticks(10)
    for number in range(1, 34):
        weather.update(number)
        new.ticks(5)
    eventually(lambda: weather.server.service.open_streams == 1, "the old process to let go of its stream")
    assert (old.channels.names, new.channels.names) == ((), (CHANNEL,))
    assert_landed(weather, *range(34))


def test_the_members_of_a_channel_are_asked_for_every_ten_minutes_and_not_at_each_tick(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    members = OrgConnection.members

    def counted(org: OrgConnection, channel: str) -> ChannelMembers | None:
        asked.append(weather.clock())
        return members(org, channel)

    monkeypatch.setattr(OrgConnection, "members", counted)
    for number in range(24):
        weather.update(number)
        server.ticks(100, every=100)
    hours = (weather.clock() - asked[0]) / 3_600_000
    assert len(asked) == pytest.approx(hours * 6, abs=1)
