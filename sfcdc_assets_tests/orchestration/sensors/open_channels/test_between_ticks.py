"""Between two ticks a channel lands what arrives, within a second: as safely as a tick does, as long as ticks come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.between_ticks import AFTER_TICK_SECONDS
from sfcdc_assets.orchestration.sensors.open_channel import OpenChannel
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.orchestration.dagster_instance import instance_in_memory
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed, streams_end
from sfcdc_assets_tests.pipeline.landing.test_deliveries_spent import defect
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream

pytestmark = pytest.mark.slow

PACE_SECONDS = 1.0


@pytest.fixture
def server(weather: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """One whose stream has answered."""
    monkeypatch.setenv("SFCDC_LAND_SECONDS", str(PACE_SECONDS))
    with instance_in_memory() as instance:
        server = CodeServer(weather, instance, lands_between_ticks=True)
        weather.update(0)
        server.ticks(15)
        try:
            yield server
        finally:
            server.die()
            no_thread_is_left(weather)


def landing_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "landing between ticks"]


def in_the_end(stream: Stream, condition: Callable[[], object], what: str) -> None:
    """While time passes: the thread rests by the org's clock."""

    def is_so() -> bool:
        stream.clock.advance(100)
        return bool(condition())

    eventually(is_so, what)


def has_landed(stream: Stream, *accounts: int) -> None:
    in_the_end(stream, lambda: stream.records_landed() == stream.ids(*accounts), f"{accounts} to be landed")
    assert_landed(stream, *accounts)


def no_thread_is_left(stream: Stream) -> None:
    in_the_end(stream, lambda: not landing_threads(), "the landing between ticks to end")


def test_what_arrives_between_two_ticks_is_landed_before_the_next_one_which_reports_it(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    weather.update(2)
    has_landed(weather, 0, 1, 2)
    weather.pass_time(PACE_SECONDS)
    weather.update(3)
    has_landed(weather, 0, 1, 2, 3)
    assert weather.checkpoint().complete_position == 3, "a transaction that another one follows is complete"
    for _ in range(2):
        server.tick()
        assert server.open().landed == 4, "each event is counted by one tick"
    assert weather.delivered == 4


def test_the_last_transaction_is_complete_when_it_has_settled_and_no_tick_is_waited_for(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    has_landed(weather, 0, 1)
    weather.pass_time(SETTLE - 1)
    assert weather.checkpoint().complete_position == 1
    weather.pass_time(1 + PACE_SECONDS)
    eventually(lambda: weather.checkpoint().complete_position == 2, "the settling time to be noted")
    assert landing_threads(), "no tick has come meanwhile"


def test_a_stream_that_never_rests_is_landed_once_a_second_at_most(weather: Stream, server: CodeServer) -> None:
    before, began = RawEvents.open(weather.warehouse).table.version, weather.clock()
    accounts = list(range(1, 40))
    for number in accounts:
        weather.update(number)
        weather.pass_time(0.1)
    has_landed(weather, 0, *accounts)
    seconds = (weather.clock() - began) / 1000
    assert RawEvents.open(weather.warehouse).table.version - before <= seconds / PACE_SECONDS + 1


def test_a_stream_that_brings_nothing_is_waited_for_and_not_looked_at(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    land_ahead = ChannelReader.land_ahead

    def counted(reader: ChannelReader) -> int | None:
        looks.append(weather.clock())
        return land_ahead(reader)

    monkeypatch.setattr(ChannelReader, "land_ahead", counted)
    server.ticks(200)
    assert looks == []
    assert len(landing_threads()) == 1


def test_a_channel_whose_sensor_no_longer_ticks_lands_no_more_and_is_closed_as_ever(
    weather: Stream, server: CodeServer
) -> None:
    weather.pass_time(AFTER_TICK_SECONDS)
    no_thread_is_left(weather)
    weather.update(1)
    weather.wait_until_the_org_is_idle()
    assert_landed(weather, 0)
    assert weather.server.service.open_streams == 1
    server.tick()
    assert_landed(weather, 0, 1)
    weather.update(2)
    has_landed(weather, 0, 1, 2)
    weather.pass_time(160)
    streams_end(weather)
    no_thread_is_left(weather)


def failure_of_a_tick(opened: OpenChannel) -> str:
    """What the tick is told by its reading; empty where that worked."""
    with opened.in_use():
        return str(opened.read(TICK).failure or "")


def test_what_fails_between_two_ticks_fails_the_next_one_and_costs_no_delivery(
    weather: Stream, server: CodeServer
) -> None:
    with defect():
        weather.update(1)
        no_thread_is_left(weather)
        weather.update(2)
        for _ in range(20):
            weather.pass_time(5)
            assert "a defect" in failure_of_a_tick(server.open())
        assert landing_threads() == []
    while failure_of_a_tick(server.open()):  # until the pause is over
        weather.pass_time(5)
    has_landed(weather, 0, 1, 2)
    weather.update(3)
    has_landed(weather, 0, 1, 2, 3)
    assert weather.delivered == 4


def test_a_failure_between_two_ticks_is_told_even_where_the_next_tick_would_have_worked(
    weather: Stream, server: CodeServer
) -> None:
    with defect():
        weather.update(1)
        no_thread_is_left(weather)
    weather.pass_time(60)
    assert "a defect" in failure_of_a_tick(server.open())
    assert not failure_of_a_tick(server.open())
    assert_landed(weather, 0, 1)


def test_a_channel_that_fails_between_ticks_keeps_no_other_one_from_landing(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = server.open("/data/AccountChangeEvent")
    assert not failure_of_a_tick(bad)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("this channel alone")

    assert isinstance(bad.reader, ChannelReader)
    monkeypatch.setattr(bad.reader._stream, "land_arrived", fails)
    weather.update(1)
    in_the_end(weather, lambda: len(landing_threads()) == 1, "one of the two to fail")
    in_the_end(weather, lambda: weather.checkpoint().position == 2, "the other one to land")
    assert not failure_of_a_tick(server.open())
    assert "alone" in failure_of_a_tick(bad)


@pytest.mark.parametrize("fault", [Fault.STREAM_RESET, Fault.STREAM_AUTH_ERROR])
def test_a_call_that_breaks_between_two_ticks_is_begun_again_by_the_next_one(
    weather: Stream, server: CodeServer, fault: Fault
) -> None:
    weather.server.faults.arm(fault)
    weather.update(1)
    server.ticks(15)
    assert weather.server.faults.armed(fault) == 0
    weather.update(2)
    has_landed(weather, 0, 1, 2)


def test_another_process_that_lands_between_the_ticks_of_the_first_lands_each_event_once(
    weather: Stream, server: CodeServer
) -> None:
    second = CodeServer(weather, server.instance, lands_between_ticks=True)
    second.tick()
    accounts = list(range(1, 13))
    for number in accounts:
        weather.update(number)
        weather.pass_time(0.4)
        if number % 4 == 0:
            server.tick()
            second.tick()
    server.ticks(15)
    second.ticks(15)
    assert_landed(weather, 0, *accounts)
    second.die()


def test_a_channel_that_is_closed_has_no_thread_left_and_another_process_goes_on(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    has_landed(weather, 0, 1)
    weather.update(2)
    weather.wait_until_the_org_is_idle()
    server.channels.close(lands=True)
    no_thread_is_left(weather)
    streams_end(weather)
    following = CodeServer(weather, server.instance)
    following.ticks(15)
    assert_landed(weather, 0, 1, 2)
    following.die()


def test_what_was_landed_between_two_ticks_is_reported_with_the_lag_that_it_had_then(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    has_landed(weather, 0, 1)
    weather.pass_time(4 * AFTER_TICK_SECONDS)
    server.tick()
    held = server.open().last_look.held
    taken = held.take_entities(at_once=True)
    assert taken is not None
    assert taken.waited["Account"] < AFTER_TICK_SECONDS, "and not with the minute until the tick"


def test_a_thread_that_cannot_be_begun_fails_no_tick_and_is_begun_by_the_next_one(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.pass_time(AFTER_TICK_SECONDS)
    no_thread_is_left(weather)

    def fails(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    weather.update(1)
    weather.wait_until_the_org_is_idle()
    with monkeypatch.context() as patch:
        patch.setattr(clock.current(), "start_thread", fails)
        assert not failure_of_a_tick(server.open())
    assert landing_threads() == []
    assert not failure_of_a_tick(server.open())
    weather.update(2)
    has_landed(weather, 0, 1, 2)


def test_requests_that_landing_between_ticks_took_are_reported_by_the_next_tick(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = server.open().reader
    assert isinstance(reader, ChannelReader)
    land_arrived = reader._stream.land_arrived

    def asks_first(report: LandingReport, on_events: Callable[[], object]) -> None:
        server.open().org.session.request("GET", "limits")
        land_arrived(report, on_events)

    monkeypatch.setattr(reader._stream, "land_arrived", asks_first)
    weather.update(1)
    has_landed(weather, 0, 1)
    with server.open().in_use():
        assert server.open().read(TICK).report.api_requests == 1


def test_a_setting_leaves_all_landing_to_the_ticks(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_LAND_SECONDS", "0")
    server.ticks(5)
    no_thread_is_left(weather)
    weather.update(1)
    weather.wait_until_the_org_is_idle()
    server.ticks(15)
    assert_landed(weather, 0, 1)
    assert landing_threads() == []
