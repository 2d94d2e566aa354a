"""One thing is wrong for half a day: what has nothing to do with it goes on, and what it costs the org is bounded.

A row is one call of the org's, or one thing of ours, and one way in which it fails; beside it stands whether events
still land. A sensor ticks every hour, an event comes every two hours; deliveries, logins, requests and sessions are
counted at the org. When it is over, all has landed, once and in order. `make soak` has whole days, with a tick
every half hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from requests import Response, Timeout

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall, reply_to
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.rest_deadline import unanswered_time
from sfcdc_assets.salesforce.transport import Transport
from sfcdc_assets.streams.cometd.client import ANSWER_SECONDS, CONNECT, HANDSHAKE, SUBSCRIBE, BayeuxClient
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.landing.test_deliveries_spent import FAILURES
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, Stream, stream

pytestmark = pytest.mark.slow

HALF_A_DAY, A_DAY = 12, 24
HOUR_MS = 3_600_000
AN_EVENT = 2
"""Hours between two events."""
WAITING = 10
"""Events that come at once when it begins."""
ALWAYS = 10**6
REQUESTS_A_TICK = 8
CALLS_A_TICK = 40
"""Of the Streaming API: each of some tries begins a session, subscribes, connects and ends it."""
SESSIONS = 2
"""Of the Streaming API that are open at once: one that is read, and one that the org has not heard the end of."""
TOKEN = "/services/oauth2"

Arm = Callable[[Stream, ExitStack], object]
Failure = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class Wrong:
    """What is wrong, whether events land nevertheless, how many requests to log in a tick may cost beside the first
    tries (by default those of two that each ask once), and over which protocol the channel is read."""

    what: str
    arm: Arm
    lands: bool = False
    logins_a_tick: int = 2
    transport: str = "pubsub"


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


def unanswered(fault: RestFault, path: str) -> Arm:
    """Requests of a path are answered late: `slow` within the time that a request has, `timeout` not at all."""

    def arm(org: Stream, stack: ExitStack) -> None:
        patch, send = stack.enter_context(pytest.MonkeyPatch.context()), Transport._send

        def sent(transport: Transport, method: str, url: str, options: dict[str, Any]) -> Response:
            patience = unanswered_time()
            waited = WAITED_SECONDS if patience is None else min(WAITED_SECONDS, patience.left)
            try:
                return send(transport, method, url, {**options, "timeout": (5.0, LATE_SECONDS)})
            except Timeout:
                org.clock.advance(round(waited * 1000))
                raise

        if fault is RestFault.TIMEOUT:
            patch.setattr(Transport, "_send", sent)
        org.server.rest_faults.arm(fault, ALWAYS, path=path, seconds=60.0 if fault is RestFault.TIMEOUT else 0.02)

    return arm


def of_late_login(org: Stream, stack: ExitStack) -> None:
    """The token is not good any more, and nobody answers who asks for another one."""
    unanswered(RestFault.TIMEOUT, TOKEN)(org, stack)
    org.server.sessions.expire_all()
    org.server.faults.arm(Fault.STREAM_RESET)


def of_ours(failure: Failure) -> Arm:
    return lambda _, stack: stack.enter_context(failure())


def used_up(org: Stream, _: ExitStack) -> None:
    org.org.settings = replace(org.org.settings, daily_api_requests=1)


def of_schemas(way: str) -> Arm:
    """The object has a field more, and the schema of its events is not to be had."""

    def arm(org: Stream, stack: ExitStack) -> None:
        patch, service, asked = stack.enter_context(pytest.MonkeyPatch.context()), org.server.service, []
        if way == "slow":
            patch.setattr(org.connected.transport._connection, "_deadline", GIVEN_UP_SECONDS)
        known = {row[0] for row in org.org.database.rows("SELECT schema_id FROM _bus_schema")}

        def schema_json(schema_id: str) -> str | None:
            if schema_id in known:
                return found(schema_id)
            asked.append(schema_id)
            if way == "slow":
                time.sleep(4 * GIVEN_UP_SECONDS)
            return SCHEMAS.get(way)

        found = service._bus.schema_json
        patch.setattr(service, "_bus", Answering(service._bus, schema_json))
        org.org.setup.add_field("Account", "Region__c", {"type": "string", "length": 40})
        stack.callback(lambda: asked_seldom(asked))

    return arm


def asked_seldom(asked: list[str]) -> None:
    assert 0 < len(asked) <= 60, len(asked)


class Answering:
    """A bus as it is, but for the schemas that it gives out."""

    def __init__(self, bus: Any, schema_json: Callable[[str], str | None]) -> None:
        self._bus, self.schema_json = bus, schema_json

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)


def of_message(channel: str, way: str) -> Arm:
    """One message of the Streaming API: whatever is asked with it is answered so."""

    def arm(org: Stream, stack: ExitStack) -> None:
        patch, service = stack.enter_context(pytest.MonkeyPatch.context()), org.server.cometd
        whole, send = service.answer, BayeuxClient._send

        def answer(call: CometdCall) -> CometdAnswer:
            (message,) = call.messages
            if message.get("channel") != channel:
                return whole(call)
            if way == "slow":
                time.sleep(2 * GIVEN_UP_SECONDS)
            found = {"refused": refusals.USER_NOT_ENABLED, "used up": USED_UP[channel]}
            if way in found:
                return CometdAnswer([reply_to(message, **found[way].reply())])
            return CometdAnswer([{"page": "Down for Maintenance"}])

        def impatient(client: BayeuxClient, of: str, *arguments: Any) -> Any:
            if of != channel or way != "slow":
                return send(client, of, *arguments)
            bodies, seconds = (*arguments, ANSWER_SECONDS)[:2]
            try:
                return send(client, of, bodies, GIVEN_UP_SECONDS)
            finally:
                org.clock.advance(round(seconds * 1000))

        patch.setattr(service, "answer", answer)
        patch.setattr(BayeuxClient, "_send", impatient)
        org.server.faults.arm(Fault.COMETD_UNKNOWN_CLIENT)

    return arm


SCHEMAS = {
    "garbage": "<html>",
    "another's": '{"type":"record","name":"X","fields":[]}',
    "half": '{"type":"record","name":"AccountChangeEvent","fields":[{"name":"Id","type":"string"}]}',
}
GIVEN_UP_SECONDS = 0.05
"""By the machine's clock, what stands for the minutes after which an answer is not waited for any more."""
LATE_SECONDS, WAITED_SECONDS = 0.3, 5.0
"""By the machine's clock and by the org's, what stands for the two minutes after which an answer is not waited for any
more: ticks and runs take turns here, and a stream that nobody reads meanwhile must not count as silent."""
USED_UP = {
    HANDSHAKE: refusals.TOO_MANY_CLIENTS,
    SUBSCRIBE: refusals.TOO_MANY_CLIENTS,
    CONNECT: refusals.TOO_MANY_EVENTS,
}
ANSWERS = (
    RestFault.GARBAGE,
    RestFault.CUT_OFF,
    RestFault.UNAUTHORIZED,
    RestFault.REQUEST_LIMIT,
    RestFault.UNAVAILABLE,
    RestFault.TOO_MANY_REQUESTS,
    RestFault.SERVER_ERROR,
    RestFault.REFUSED,
)
FAST_ANSWERS = ANSWERS[:4]
TRIES, FIRST_TRIES = 6, 12
"""Of a request that may pass by itself, and of the two that ask at once when it begins."""
MESSAGES = [
    Wrong(f"{channel} is {way}", of_message(channel, way), transport="cometd")
    for way in ("garbage", "slow", "used up", "refused")
    for channel in USED_UP
]
SOONER = 3
"""So many of them are in `make test`."""
TABLE = [
    Wrong("streams are refused", of_stream(Fault.STREAM_REFUSED)),
    Wrong("deliveries are used up", of_stream(Fault.STREAM_REFUSED, "subscription.limit.exceeded")),
    Wrong("tokens are refused by streams", of_stream(Fault.CALL_REFUSED, "service.auth.error")),
    Wrong("the channel may not be read", of_stream(Fault.CALL_REFUSED, "topic.meta.permission")),
    Wrong("streams are unavailable", of_stream(Fault.UNAVAILABLE)),
    Wrong("streams break", of_stream(Fault.STREAM_RESET)),
    Wrong("streams are silent", of_stream(Fault.SILENT_STREAM)),
    Wrong("answers of streams are late", of_stream(Fault.LATE_ANSWER, seconds="200"), lands=True),
    *(Wrong(f"schemas are {way}", of_schemas(way), lands=True) for way in ("refused", "half")),
    *(Wrong(f"REST answers {each}", of_rest(each), lands=True) for each in FAST_ANSWERS),
    Wrong("requests are used up", used_up, lands=True),
    *(Wrong(f"logins answer {each}", of_login(each), logins_a_tick=TRIES) for each in ANSWERS[:2]),
    *MESSAGES[:SOONER],
]
AT_LENGTH = [
    *(Wrong(f"schemas are {way}", of_schemas(way), lands=True) for way in ("garbage", "another's", "slow")),
    *(Wrong(f"describe answers {each}", of_rest(each, "/sobjects"), lands=True) for each in ANSWERS),
    *(Wrong(f"the setup answers {each}", of_rest(each, "/tooling"), lands=True) for each in ANSWERS),
    *(Wrong(f"logins answer {each}", of_login(each), logins_a_tick=TRIES) for each in ANSWERS[2:]),
    *(Wrong(f"REST answers {each}", of_rest(each), lands=True) for each in ANSWERS if each not in FAST_ANSWERS),
    *(
        Wrong(f"{fault} is what {of} answers", unanswered(fault, path), lands=True)
        for fault in (RestFault.SLOW, RestFault.TIMEOUT)
        for of, path in (("describe", "/sobjects"), ("the setup", "/tooling"), ("REST", ""))
    ),
    Wrong("logins are not answered", of_late_login, logins_a_tick=TRIES),
    *MESSAGES[SOONER:],
    *(Wrong(f"ours: {name}", of_ours(failure)) for name, failure in FAILURES.items()),
]


@pytest.fixture
def server(wrong: Wrong, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    monkeypatch.setenv("SFCDC_TRANSPORT", wrong.transport)
    with stream(tmp_path) as opened, code_servers(opened) as start:
        server = start()
        server.channels = OpenChannels(forgotten_seconds=float("inf"))  # an hour is no time here
        yield server


def landed(org: Stream) -> int:
    return RawEvents.open(org.warehouse).stored_checkpoint(CHANNEL).position


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: wrong.what.replace(" ", "_").replace("/", ""))
def test_what_has_nothing_to_do_with_it_goes_on_and_its_price_is_bounded(
    wrong: Wrong, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_through(wrong, server, monkeypatch, HALF_A_DAY, ticks_an_hour=1)


@pytest.mark.soak
@pytest.mark.parametrize("wrong", AT_LENGTH, ids=lambda wrong: wrong.what.replace(" ", "_"))
def test_the_same_of_every_answer_to_every_request(
    wrong: Wrong, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_through(wrong, server, monkeypatch, A_DAY, ticks_an_hour=2)


def live_through(
    wrong: Wrong, server: CodeServer, patch: pytest.MonkeyPatch, hours: int, *, ticks_an_hour: int
) -> None:
    """So long with it, and some hours without."""
    org, ticks, every_ms = server.stream, hours * ticks_an_hour, HOUR_MS // ticks_an_hour
    org.update(0)
    for _ in range(2):
        one_tick(server)
        org.clock.advance(15_000)
    requests = Requests(org.server, patch)
    delivered, made = org.delivered, WAITING
    with ExitStack() as stack:
        wrong.arm(org, stack)
        for number in range(WAITING):
            org.update(number)
        for step in range(ticks):
            org.clock.advance(every_ms)
            one_tick(server)
            assert org.server.cometd.open_sessions <= SESSIONS
            if step % (AN_EVENT * ticks_an_hour) == 0 and step < ticks - AN_EVENT * ticks_an_hour:
                org.update(step % 40)
                made += 1
        meanwhile, asked = landed(org) - 1, requests.take_all()
    if wrong.lands:
        assert meanwhile == made
    assert org.delivered - delivered <= 3 * made
    logins = sum(each.endswith("/token") for each in asked)
    calls = sum("/cometd" in each for each in asked)
    assert logins <= FIRST_TRIES + wrong.logins_a_tick * ticks
    assert calls <= CALLS_A_TICK * ticks
    assert len(asked) - logins - calls <= REQUESTS_A_TICK * ticks

    org.server.faults.disarm()
    org.server.rest_faults.disarm()
    org.org.settings = OrgSettings()
    for _ in range(4):
        org.clock.advance(HOUR_MS)
        one_tick(server)
    assert [row["position"] for row in org.landed()] == list(range(1, made + 2))
    assert len({row["event_id"] for row in org.landed()}) == made + 1
    assert org.delivered - delivered <= 3 * made


def one_tick(server: CodeServer) -> None:
    """One of the sensor, whatever becomes of it."""
    with suppress(SfcdcError, RuntimeError):  # `FAILURES` raise the latter
        tick(ASSETS, server.instance, CHANNEL, server.open(), TICK)
