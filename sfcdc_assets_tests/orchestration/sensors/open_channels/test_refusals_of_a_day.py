"""What an org refuses for a day is asked for less and less often: logins, calls and sessions are other people's too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.landing.durable_pause import RefusedBefore
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.same_organization import WrongOrganization
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import LoginRefused
from sfcdc_assets.streams.cometd.client import BayeuxClient
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, assert_landed, code_servers
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

pytestmark = pytest.mark.slow

MINUTE_MS = 60_000
HOURS = 6
"""Pauses have grown to their longest in the first: the other hours of a day cost as much as these."""
TICKS = 40
"""In an hour: many times as many as there should be tries, and more than would let an open channel be forgotten."""
GROWING = 16
"""Tries of the first hour, at most, while pauses are short."""
ACCOUNT, CONTACT = "/data/AccountChangeEvent", "/data/ContactChangeEvent"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is asked of the org's streams: unary calls, streams that are opened, CometD sessions that are begun."""
    counted: Counter[str] = Counter()

    def count(kind: type, name: str) -> None:
        call = getattr(kind, name)

        def noted(*given: object, **named: object) -> object:
            counted[name] += 1
            return call(*given, **named)

        monkeypatch.setattr(kind, name, noted)

    count(PubSubConnection, "probe")
    count(PubSubConnection, "open_stream")
    count(BayeuxClient, "handshake")
    return counted


@pytest.fixture
def cometd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    monkeypatch.setenv("SFCDC_TRANSPORT", "cometd")
    with stream(tmp_path) as opened, code_servers(opened) as start:
        yield start()


def one_tick(server: CodeServer, channel: str = CHANNEL) -> SfcdcError | None:
    """What fails in a tick of the channel's sensor. One that asks for a run says it as a warning."""
    warned: list[str] = []
    try:
        tick(ASSETS, server.instance, channel, server.open(channel), TICK, warned.append)
    except SfcdcError as error:
        return error
    return SfcdcError(warned[0]) if warned else None


def ticks_of_hours(
    server: CodeServer, *channels: str, after_each: Callable[[], object] = lambda: None, ticks: int = TICKS
) -> list[SfcdcError]:
    """What the ticks of the channels fail with; `ticks`: in an hour."""
    errors = []
    for _ in range(HOURS * ticks):
        server.stream.clock.advance(60 * MINUTE_MS // ticks)
        errors += [error for channel in channels or (CHANNEL,) if (error := one_tick(server, channel)) is not None]
        after_each()
    return errors


def logins(requests: Requests) -> int:
    return sum(each.endswith("/token") for each in requests.take_all())


def test_a_token_that_the_stream_refuses_for_a_day_costs_a_login_an_hour(
    weather: Stream, server: CodeServer, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.ticks(15)
    requests = Requests(weather.server, monkeypatch)
    calls.clear()
    weather.server.faults.arm(Fault.CALL_REFUSED, 10**6, code="service.auth.error")
    weather.server.faults.arm(Fault.STREAM_AUTH_ERROR, 1)
    weather.update(2)
    errors = ticks_of_hours(server)
    assert len(errors) > HOURS * TICKS * 0.9
    assert all("The next try is in" in str(error) for error in errors[1:])
    assert HOURS <= logins(requests) <= HOURS + GROWING
    assert calls["probe"] <= 2 * (HOURS + GROWING)
    weather.server.faults.disarm()
    weather.clock.advance(60 * MINUTE_MS)
    server.ticks(15)
    assert_landed(weather, 1, 2)


def test_an_allowance_of_deliveries_that_is_used_up_for_a_day_costs_a_call_an_hour(
    weather: Stream, server: CodeServer, calls: Counter[str]
) -> None:
    weather.update(1)
    server.ticks(15)
    calls.clear()
    weather.server.faults.arm(Fault.STREAM_REFUSED, 10**6, code="subscription.limit.exceeded")
    weather.update(2)
    errors = ticks_of_hours(server)
    assert "allowance is used up" in str(errors[-1])
    assert calls["open_stream"] <= HOURS + GROWING
    weather.server.faults.disarm()
    weather.clock.advance(60 * MINUTE_MS)
    server.ticks(15)
    assert_landed(weather, 1, 2)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_service_that_is_down_is_asked_every_ten_minutes(
    weather: Stream, server: CodeServer, calls: Counter[str], is_known: bool
) -> None:
    if is_known:
        weather.update(1)
        server.ticks(15)
    calls.clear()
    weather.server.faults.arm(Fault.UNAVAILABLE, 10**6)
    weather.server.faults.arm(Fault.STREAM_RESET)
    errors = ticks_of_hours(server, ticks=60)
    assert len(errors) > HOURS * 60 * 0.9
    assert all("The next try is in" in str(error) for error in errors[1:])
    assert HOURS * 5 <= calls["probe"] <= HOURS * 6 + 20
    assert calls["open_stream"] <= 5
    weather.server.faults.disarm()
    weather.clock.advance(10 * MINUTE_MS)
    weather.update(2)
    server.ticks(15)
    assert_landed(weather, *((1, 2) if is_known else (2,)))


def test_a_wrong_password_is_tried_by_all_channels_together_and_once_an_hour_and_a_new_one_at_once(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    requests = Requests(weather.server, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_CLIENT_SECRET", "wrong")
        errors = ticks_of_hours(server, CHANNEL, ACCOUNT, CONTACT)
        assert len(errors) == 3 * HOURS * TICKS
        assert {type(error) for error in errors} == {LoginRefused}
        assert all("The next try is in" in str(error) for error in errors)
        assert HOURS <= logins(requests) <= HOURS + 6
        patch.setenv("SFCDC_CLIENT_SECRET", "another wrong one")
        one_tick(server)
        assert logins(requests) == 1
    server.ticks(15)
    assert_landed(weather, 1)


def test_an_org_that_another_warehouse_belongs_to_is_logged_in_to_once_an_hour(
    weather: Stream, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    server.ticks(15)
    server.channels.drop(CHANNEL)
    weather.org.change_organization_id()
    requests = Requests(weather.server, monkeypatch)
    errors = ticks_of_hours(server)
    assert len(errors) == HOURS * TICKS
    assert isinstance(errors[-1], WrongOrganization)
    assert logins(requests) <= HOURS + GROWING


def test_a_channel_that_is_gone_leaves_no_session_behind_however_often_it_is_tried(
    cometd: CodeServer, calls: Counter[str]
) -> None:
    service, most = cometd.stream.server.cometd, Counter[str]()

    def look() -> None:
        most["open"] = max(most["open"], service.open_sessions)

    errors = ticks_of_hours(cometd, "/data/NoSuchChangeEvent", after_each=look)
    assert len(errors) == HOURS * TICKS
    assert calls["handshake"] <= HOURS * 6 + GROWING
    assert most["open"] == 0


def test_a_channel_that_fails_does_not_keep_another_one_from_being_read(weather: Stream, server: CodeServer) -> None:
    for number in range(6):
        weather.update(number)
        weather.pass_time(5)
        assert one_tick(server, "/data/NoSuchChangeEvent") is not None
        with suppress(SfcdcError):
            server.tick()
    server.ticks(15)
    assert_landed(weather, *range(6))


def test_syncs_that_cron_starts_each_minute_try_a_wrong_password_once_an_hour_and_a_new_one_at_once(
    weather: Stream, start: Callable[[], CodeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    weather.update(1)
    first = start()
    first.ticks(15)
    first.die()
    requests, hours = Requests(weather.server, monkeypatch), 3
    with monkeypatch.context() as patch:
        patch.setenv("SFCDC_CLIENT_SECRET", "wrong")
        errors = each_minute_another_process(start, hours)
        assert {type(error) for error in errors} == {LoginRefused, RefusedBefore}
        assert "The next try is in" in str(errors[-1])
        assert "the login was refused" in str(errors[-1])
        assert hours <= logins(requests) <= hours + 5
        watched = OpenChannels(tries_at_once=True)
        server = start()
        server.channels = watched
        assert isinstance(one_tick(server), LoginRefused)
        patch.setenv("SFCDC_CLIENT_SECRET", "another wrong one")
        assert isinstance(one_tick(start()), LoginRefused)
        assert logins(requests) == 2
    last = start()
    last.ticks(15)
    assert_landed(weather, 1)


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault.CALL_REFUSED, "service.auth.error"), (Fault.STREAM_REFUSED, "subscription.limit.exceeded")],
    ids=["their tokens are refused", "the deliveries are used up"],
)
def test_syncs_that_cron_starts_each_minute_log_in_once_each_and_ask_seldom_while(
    weather: Stream,
    start: Callable[[], CodeServer],
    calls: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    code: str,
) -> None:
    weather.update(1)
    first = start()
    first.ticks(15)
    first.die()
    calls.clear()
    requests, hours = Requests(weather.server, monkeypatch), 3
    weather.server.faults.arm(fault, 10**6, code=code)
    weather.update(2)
    errors = each_minute_another_process(start, hours)
    assert f"reading {CHANNEL} was refused" in str(errors[-1])
    assert calls["probe"] + calls["open_stream"] <= 2 * (hours + 8), "a token is tried, and another one"
    assert logins(requests) <= hours * 60 + hours + 8
    weather.server.faults.disarm()
    weather.clock.advance(60 * MINUTE_MS)
    for _ in range(3):
        assert one_tick(start()) is None, "what worked leaves no pause behind"
        weather.pass_time(5)
    assert_landed(weather, 1, 2)


def each_minute_another_process(start: Callable[[], CodeServer], hours: int) -> list[SfcdcError]:
    """What one tick of each fails with."""
    errors: list[SfcdcError] = []
    for _ in range(hours * 60):
        server = start()
        server.stream.clock.advance(MINUTE_MS)
        failed = one_tick(server)
        server.die()
        assert failed is not None
        errors.append(failed)
    return errors
