"""The ways in which one thing goes wrong: one call of the org's, one thing of ours, or one event."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any

import pytest
from requests import Response, Timeout

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall, reply_to
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.salesforce.rest_deadline import unanswered_time
from sfcdc_assets.salesforce.transport import Transport
from sfcdc_assets.streams.cometd.client import ANSWER_SECONDS, CONNECT, HANDSHAKE, SUBSCRIBE, BayeuxClient
from sfcdc_assets_tests.pipeline.stream import Stream

ALWAYS = 10**6
TOKEN = "/services/oauth2/token"

Arm = Callable[[Stream, ExitStack], object]
Failure = Callable[[], AbstractContextManager[None]]


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


def no_bulk_jobs_left(org: Stream, _: ExitStack) -> None:
    org.org.settings = replace(org.org.settings, daily_bulk_query_jobs=0)


def suspect(fault: Fault) -> Arm:
    """An event of an account that cannot be used as it came."""

    def arm(org: Stream, _: ExitStack) -> None:
        org.server.faults.arm(fault)
        org.update(3)

    return arm


def suspect_and(arm: Arm, *faults: Fault) -> Arm:
    """That, and events because of which a record or its entity has to be read."""

    def all_of_it(org: Stream, stack: ExitStack) -> None:
        arm(org, stack)
        for fault in faults:
            suspect(fault)(org, stack)

    return all_of_it


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
