"""The channels that a code server keeps open: forgotten, reopened, never closed in use, and two at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sfcdc_assets.config import load_settings
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.channel_reader import ChannelReader
from sfcdc_assets.pipeline.landing.patience import TICK
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pubsub.errors import AuthenticationRefused, PubSubUnavailable
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.salesforce.errors import LoginRefused
from sfcdc_assets.sensors import open_channels
from sfcdc_assets.sensors.channel import tick
from sfcdc_assets.sensors.open_channels import FORGOTTEN_SECONDS, ChannelInUse, OpenChannels
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream
from sfcdc_assets_tests.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.simulated_clock import SimulatedClock

__all__ = ["no_settings_but_the_tests_own"]


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path) as opened:
        yield opened


@pytest.fixture
def start(weather: Stream) -> Iterator[Callable[[], CodeServer]]:
    with code_servers(weather) as start:
        yield start


@pytest.fixture
def server(start: Callable[[], CodeServer]) -> CodeServer:
    return start()


def streams_end(weather: Stream) -> None:
    eventually(lambda: weather.server.service.open_streams == 0, "the org to see its streams end")


def assert_landed(weather: Stream, *accounts: int) -> None:
    """Each event once, in order, at dense positions."""
    assert weather.records_landed() == weather.ids(*accounts)
    assert [row["position"] for row in weather.landed()] == list(range(1, len(accounts) + 1))


# -- forgotten


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


# -- in use


class HeldTick:
    """A tick that stops in its midst, in a thread of its own, until it is let go."""

    def __init__(self, server: CodeServer, patch: pytest.MonkeyPatch) -> None:
        self._inside, self._go = threading.Event(), threading.Event()
        self.opened = server.open()
        land = self.opened.reader.land

        def held(patience: object) -> object:
            self._inside.set()
            assert self._go.wait(BOUND_SECONDS)
            return land(TICK)

        patch.setattr(self.opened.reader, "land", held)
        self.failures: list[BaseException] = []
        self._clock = server.stream.clock
        self._thread = threading.Thread(target=self._run, args=(server,), daemon=True)
        self._thread.start()
        assert self._inside.wait(BOUND_SECONDS)

    def _run(self, server: CodeServer) -> None:
        try:
            tick(server.instance, CHANNEL, self.opened, TICK)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failures.append(error)

    def let_go(self) -> None:
        self._go.set()
        joined(self._thread, clock=self._clock)


def joined(*threads: threading.Thread, clock: SimulatedClock) -> None:
    """Wait for threads; what they wait for passes meanwhile."""

    def are_over() -> bool:
        clock.advance(50)
        return not any(thread.is_alive() for thread in threads)

    eventually(are_over, "a tick to end")


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
        tick(server.instance, CHANNEL, held.opened, TICK)
    assert weather.server.service.open_streams == 0
    assert_landed(weather, 1, 2)


def test_a_tick_that_meets_another_one_at_work_fails_at_once_and_says_so(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldTick(server, monkeypatch)
    weather.clock.advance(65_000)
    with pytest.raises(ChannelInUse, match="65 s"):
        tick(server.instance, CHANNEL, server.open(), TICK)
    held.let_go()
    assert held.failures == []


# -- another org, another warehouse


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


# -- two at once, and one that dies


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
            tick(of.instance, CHANNEL, of.open(), TICK)
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


# -- what is asked of the org


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


# -- what fails


def test_a_refused_login_fails_each_tick_and_leaves_nothing_that_blocks_the_next(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    requests = Requests(weather.server, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_CLIENT_SECRET", "wrong")
        for _ in range(120):
            with pytest.raises(LoginRefused, match="SFCDC_CLIENT_SECRET"):
                tick(server.instance, CHANNEL, server.open(), TICK)
            assert weather.server.service.open_streams == 0
            weather.clock.advance(5_000)
        # Ten minutes of ticks: an org locks a user out after some wrong passwords.
        assert [each for each in requests.take_all() if each.endswith("/token")] == ["POST /services/oauth2/token"] * 2
    server.ticks(15)
    assert weather.server.service.open_streams == 1
    assert_landed(weather, 1)


def test_a_connection_that_cannot_be_made_leaves_nothing_open(weather: Stream, server: CodeServer) -> None:
    closed: list[str] = []

    class Session(AbstractContextManager[OrgConnection]):
        def __enter__(self) -> OrgConnection:
            return weather.connected

        def __exit__(self, *error: object) -> None:
            closed.append("session")

    def no_reader(*given: object) -> ChannelReader:
        raise OSError("out of file descriptors")

    channels = OpenChannels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_channels, "ChannelReader", no_reader)
        with pytest.raises(OSError, match="descriptors"):
            channels.of(CHANNEL, weather.warehouse, load_settings(), Session)
    assert closed == ["session"]
    assert channels.names == ()


def test_a_channel_that_waits_for_its_login_holds_up_no_other_channel_and_no_thread(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_door, answered = threading.Event(), threading.Event()
    connect = OrgResource.connect

    def slow(resource: OrgResource, warehouse: Warehouse) -> AbstractContextManager[OrgConnection]:
        at_the_door.set()
        assert answered.wait(BOUND_SECONDS)
        return connect(resource, warehouse)

    with monkeypatch.context() as patch:
        patch.setattr(OrgResource, "connect", slow)
        thread = threading.Thread(target=server.open, daemon=True)
        thread.start()
        assert at_the_door.wait(BOUND_SECONDS)
        patch.setattr(OrgResource, "connect", connect)
        server.open("/data/AccountChangeEvent").reader.land(TICK)
        with pytest.raises(ChannelInUse, match="still connecting"):
            server.open()
        answered.set()
        joined(thread, clock=weather.clock)
    assert sorted(server.channels.names) == ["/data/AccountChangeEvent", CHANNEL]
    server.tick()
    assert weather.server.service.open_streams == 2


def test_an_org_that_is_down_fails_the_ticks_and_is_read_on_when_it_is_back(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    server.ticks(15)
    weather.server.stop()
    for _ in range(6):
        weather.clock.advance(5_000)
        with pytest.raises(PubSubUnavailable):
            tick(server.instance, CHANNEL, server.open(), TICK)
    weather.update(2)
    weather.server.start()
    weather.clock.advance(60_000)
    server.ticks(20)
    assert_landed(weather, 1, 2)


def test_a_token_that_expires_in_mid_stream_is_renewed_within_the_tick(weather: Stream, server: CodeServer) -> None:
    weather.update(1)
    server.ticks(15)
    for number in range(2, 6):
        weather.server.faults.arm(Fault.STREAM_AUTH_ERROR)
        weather.update(number)
        server.ticks(15)
        assert weather.server.faults.armed(Fault.STREAM_AUTH_ERROR) == 0
    assert_landed(weather, *range(1, 6))
    assert weather.delivered <= 9  # the open replay id comes again with each new call


def test_a_second_refusal_before_the_stream_answered_does_not_end_the_renewing_of_tokens(
    weather: Stream, server: CodeServer
) -> None:
    weather.update(1)
    server.ticks(15)
    weather.server.faults.arm(Fault.STREAM_AUTH_ERROR, times=2)
    weather.update(2)
    with pytest.raises(AuthenticationRefused):
        server.ticks(15)
    weather.server.sessions.expire_all()
    weather.pass_time(5)
    server.tick()
    server.ticks(15)
    assert_landed(weather, 1, 2)
