"""One thing is wrong for half a day: what has nothing to do with it goes on, and what it costs the org is bounded.

A row is one call of the org's, or one thing of ours, and one way in which it fails; beside it stands whether events
still land. A sensor ticks every half hour, an event comes every two hours; deliveries, logins and requests are
counted at the org. When it is over, all has landed, once and in order. `make test-slow` has whole days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.landing.test_deliveries_spent import FAILURES
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

HALF_A_DAY, A_DAY = 12, 24
TICKS_AN_HOUR, EVERY_MS = 2, 1_800_000
AN_EVENT = 4
"""Ticks between two events."""
WAITING = 10
"""Events that come at once when it begins."""
ALWAYS = 10**6
REQUESTS_A_TICK = 8
TOKEN = "/services/oauth2"

Arm = Callable[[Stream, ExitStack], object]
Failure = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Wrong:
    """What is wrong, whether events land nevertheless, and how many requests to log in an hour it may cost beside those
    of the first tries: by default those of two that each ask once."""

    what: str
    arm: Arm
    lands: bool = False
    logins_an_hour: int = 2


def of_stream(fault: Fault, code: str = "", **options: str) -> Arm:
    def arm(org: Stream, _: ExitStack) -> None:
        org.server.faults.arm(fault, ALWAYS, **({"code": code} if code else {}), **options)
        org.server.faults.arm(Fault.STREAM_RESET)

    return arm


def of_rest(fault: RestFault, path: str = "") -> Arm:
    return lambda org, _: org.server.rest_faults.arm(fault, ALWAYS, path=path)


def of_login(fault: RestFault) -> Arm:
    """The token is not good any more, and no other one is to be had."""

    def arm(org: Stream, _: ExitStack) -> None:
        org.server.rest_faults.arm(fault, ALWAYS, path=TOKEN)
        org.server.sessions.expire_all()
        org.server.faults.arm(Fault.STREAM_RESET)

    return arm


def of_ours(failure: Failure) -> Arm:
    return lambda _, stack: stack.enter_context(failure())


def used_up(org: Stream, _: ExitStack) -> None:
    org.org.settings = replace(org.org.settings, daily_api_requests=1)


ANSWERS = (
    RestFault.UNAUTHORIZED,
    RestFault.REQUEST_LIMIT,
    RestFault.TOO_MANY_REQUESTS,
    RestFault.UNAVAILABLE,
    RestFault.SERVER_ERROR,
    RestFault.GARBAGE,
    RestFault.CUT_OFF,
    RestFault.REFUSED,
)
TRIES, FIRST_TRIES = 6, 12
"""Of a request that may pass by itself, and of the two that ask at once when it begins."""
TABLE = [
    Wrong("streams are refused", of_stream(Fault.STREAM_REFUSED)),
    Wrong("deliveries are used up", of_stream(Fault.STREAM_REFUSED, "subscription.limit.exceeded")),
    Wrong("tokens are refused by streams", of_stream(Fault.CALL_REFUSED, "service.auth.error")),
    Wrong("the channel may not be read", of_stream(Fault.CALL_REFUSED, "topic.meta.permission")),
    Wrong("streams are unavailable", of_stream(Fault.UNAVAILABLE)),
    Wrong("streams break", of_stream(Fault.STREAM_RESET)),
    Wrong("streams are silent", of_stream(Fault.SILENT_STREAM)),
    Wrong("answers of streams are late", of_stream(Fault.LATE_ANSWER, seconds="200"), lands=True),
    Wrong("schemas are refused", of_stream(Fault.SCHEMA_REFUSED), lands=True),
    *(Wrong(f"REST answers {each}", of_rest(each), lands=True) for each in ANSWERS),
    Wrong("requests are used up", used_up, lands=True),
    *(Wrong(f"logins answer {each}", of_login(each), logins_an_hour=TRIES * TICKS_AN_HOUR) for each in ANSWERS[-3:]),
    *(Wrong(f"ours: {name}", of_ours(failure)) for name, failure in FAILURES.items()),
]
AT_LENGTH = [
    *(Wrong(f"describe answers {each}", of_rest(each, "/sobjects"), lands=True) for each in ANSWERS),
    *(Wrong(f"the setup answers {each}", of_rest(each, "/tooling"), lands=True) for each in ANSWERS),
    *(Wrong(f"logins answer {each}", of_login(each), logins_an_hour=TRIES * TICKS_AN_HOUR) for each in ANSWERS[:-3]),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CodeServer]:
    with stream(tmp_path) as opened, code_servers(opened) as start:
        server = start()
        server.channels = OpenChannels(forgotten_seconds=float("inf"))  # half an hour is no time here
        yield server


def landed(org: Stream) -> int:
    return RawEvents.open(org.warehouse).stored_checkpoint(CHANNEL).position


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: wrong.what.replace(" ", "_"))
def test_what_has_nothing_to_do_with_it_goes_on_and_its_price_is_bounded(
    wrong: Wrong, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_through(wrong, server, monkeypatch, HALF_A_DAY)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", AT_LENGTH, ids=lambda wrong: wrong.what.replace(" ", "_"))
def test_the_same_of_every_answer_to_every_request(
    wrong: Wrong, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_through(wrong, server, monkeypatch, A_DAY)


def live_through(wrong: Wrong, server: CodeServer, patch: pytest.MonkeyPatch, hours: int) -> None:
    """So long with it, and some hours without."""
    org, ticks = server.stream, hours * TICKS_AN_HOUR
    org.update(0)
    server.ticks(15)
    requests = Requests(org.server, patch)
    delivered, made = org.delivered, WAITING
    with ExitStack() as stack:
        wrong.arm(org, stack)
        for number in range(WAITING):
            org.update(number)
        for step in range(ticks):
            org.clock.advance(EVERY_MS)
            one_tick(server)
            if step % AN_EVENT == 0 and step < ticks - AN_EVENT:
                org.update(step % 40)
                made += 1
        meanwhile, asked = landed(org) - 1, requests.take_all()
    if wrong.lands:
        assert meanwhile == made
    assert org.delivered - delivered <= 3 * made
    logins = sum(each.endswith("/token") for each in asked)
    assert logins <= FIRST_TRIES + wrong.logins_an_hour * hours
    assert len(asked) - logins <= REQUESTS_A_TICK * ticks

    org.server.faults.disarm()
    org.server.rest_faults.disarm()
    org.org.settings = OrgSettings()
    for _ in range(8):
        org.clock.advance(EVERY_MS)
        one_tick(server)
    assert [row["position"] for row in org.landed()] == list(range(1, made + 2))
    assert len({row["event_id"] for row in org.landed()}) == made + 1
    assert org.delivered - delivered <= 3 * made


def one_tick(server: CodeServer) -> None:
    """One of the sensor, whatever becomes of it."""
    with suppress(SfcdcError, RuntimeError):  # `FAILURES` raise the latter
        tick(server.instance, CHANNEL, server.open(), TICK)
