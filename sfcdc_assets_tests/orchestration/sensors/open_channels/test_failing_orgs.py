"""An org that refuses the login, is slow, is down, or whose token expires: ticks fail, and the next ones go on."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.sensors import open_channel
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channel import ChannelInUse
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.salesforce.errors import LoginRefused
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.pubsub.errors import AuthenticationRefused, PubSubUnavailable
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed
from sfcdc_assets_tests.orchestration.sensors.dagster_runs import run_of, tags_of_channel
from sfcdc_assets_tests.orchestration.sensors.held_tick import joined
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream


def test_a_refused_login_fails_each_tick_and_leaves_nothing_that_blocks_the_next(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    requests = Requests(weather.server, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_CLIENT_SECRET", "wrong")
        for _ in range(120):
            with pytest.raises(LoginRefused, match="SFCDC_CLIENT_SECRET"):
                tick(ASSETS, server.instance, CHANNEL, server.open(), TICK)
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

    def no_reader(*given: object, **named: object) -> ChannelReader:
        raise OSError("out of file descriptors")

    channels = OpenChannels()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_channel, "reader_of", no_reader)
        with pytest.raises(OSError, match="descriptors"):
            channels.of(CHANNEL, weather.warehouse, load_settings(), Session)
    assert closed == ["session"]
    assert channels.names == ()


def test_a_channel_that_waits_for_its_login_holds_up_no_other_channel_and_no_thread(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_door, answered = threading.Event(), threading.Event()
    connect = OrgAssets.connect

    def slow(assets: OrgAssets, warehouse: Warehouse) -> AbstractContextManager[OrgConnection]:
        at_the_door.set()
        assert answered.wait(BOUND_SECONDS)
        return connect(assets, warehouse)

    with monkeypatch.context() as patch:
        patch.setattr(OrgAssets, "connect", slow)
        thread = threading.Thread(target=server.open, daemon=True)
        thread.start()
        assert at_the_door.wait(BOUND_SECONDS)
        patch.setattr(OrgAssets, "connect", connect)
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
    with weather.server.outage():
        for _ in range(6):
            weather.clock.advance(5_000)
            with pytest.raises(PubSubUnavailable):
                tick(ASSETS, server.instance, CHANNEL, server.open(), TICK)
        weather.update(2)
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
    """Said by a tick that has no work to ask for: a run is queued already."""
    weather.update(1)
    server.ticks(15)
    for job in ("snapshot", "sync"):
        tags = tags_of_channel(CHANNEL, job)
        run_of(server.instance, ASSETS.name(job), tags, dg.DagsterRunStatus.QUEUED)
    weather.server.faults.arm(Fault.STREAM_AUTH_ERROR, times=2)
    weather.update(2)
    with pytest.raises(AuthenticationRefused, match="The next try is in 30 s"):
        server.ticks(15)
    weather.server.sessions.expire_all()
    weather.pass_time(30)
    server.tick()
    server.ticks(15)
    assert_landed(weather, 1, 2)
