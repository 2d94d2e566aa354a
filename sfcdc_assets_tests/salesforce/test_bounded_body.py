"""Answers that unpack to more than a machine holds, or never end, are refused within bounds, whoever sends them."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import requests
import urllib3

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.salesforce.answers import MOST_BYTES, MOST_LOGIN_BYTES, BodyTooLarge, hold_body
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.cometd.client import BayeuxClient
from sfcdc_assets.streams.cometd.errors import CometdUnavailable
from sfcdc_assets.streams.cometd.http import MOST_ANSWER_BYTES, CometdHttp
from sfcdc_assets_tests.salesforce.scripted_org import Answer, ScriptedOrg

pytestmark = pytest.mark.slow

MIB = 2**20


def bomb(unpacked: int, status: int = 200) -> Answer:
    """An answer of a thousandth of its unpacked size."""
    packed = gzip.compress(b'{"records":[') + b"".join(gzip.compress(b" " * MIB) for _ in range(unpacked // MIB + 1))
    assert len(packed) < unpacked / 200
    return Answer(status, packed, {"Content-Encoding": "gzip"})


@contextmanager
def at_most(bytes_more: int) -> Iterator[None]:
    """Fail if more memory than that is taken at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bytes_more
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_answer_of_the_org_that_unpacks_to_too_much_is_refused(
    org: ScriptedOrg, session: OrgSession, status: int
) -> None:
    org.on("GET", "query/", bomb(MOST_BYTES + 100 * MIB, status))
    with pytest.raises(UnexpectedAnswer, match=f"longer than {MOST_BYTES:,} bytes"), at_most(MOST_BYTES + 64 * MIB):
        session.request("GET", "query/", params={"q": "SELECT Id FROM Account"})
    assert len(org.requests("GET", "query/")) == 1


@pytest.mark.parametrize("login", ["/services/oauth2/token", "/services/Soap/u/64.0"])
def test_an_answer_of_a_login_that_unpacks_to_too_much_is_refused(
    org: ScriptedOrg, settings: Callable[..., Settings], login: str
) -> None:
    by_password = {"client_id": None, "client_secret": None, "username": "u", "password": "p", "security_token": "s"}
    with OrgSession(settings(**(by_password if "Soap" in login else {}))) as session:
        org.on("POST", login, bomb(100 * MIB))
        with pytest.raises(UnexpectedAnswer, match=f"longer than {MOST_LOGIN_BYTES:,} bytes"), at_most(32 * MIB):
            session.token()


def test_an_answer_of_cometd_that_unpacks_to_too_much_is_refused(org: ScriptedOrg, session: OrgSession) -> None:
    org.on("POST", "/cometd/64.0", bomb(MOST_ANSWER_BYTES + 100 * MIB))
    http = CometdHttp(f"{org.url}/cometd/64.0", lambda: "token", session.new_adapter())
    with pytest.raises(CometdUnavailable, match="BodyTooLarge"), at_most(MOST_ANSWER_BYTES + 32 * MIB):
        BayeuxClient(http, Clock()).handshake()


class Trickle:
    """A raw body that sends a byte a minute of the clock's time, for ever."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock
        self.closed = False

    def iter_content(self, chunk: int) -> Iterator[bytes]:
        while True:
            self.clock[0] += 60
            yield b" "

    def close(self) -> None:
        self.closed = True


def test_a_body_that_comes_byte_by_byte_ends_at_the_deadline() -> None:
    now = [0.0]
    body = Trickle(now)
    with pytest.raises(requests.exceptions.ReadTimeout, match="not whole after 300 s"):
        hold_body(body, monotonic=lambda: now[0])  # type: ignore[arg-type]
    assert now[0] == 360
    assert body.closed


@pytest.mark.parametrize("size", [0, MIB])
def test_a_body_up_to_the_bound_is_held(size: int) -> None:
    answer = requests.Response()
    answer.raw = urllib3.HTTPResponse(io.BytesIO(b"x" * size), preload_content=False)
    hold_body(answer, most_bytes=MIB)
    assert answer.content == b"x" * size


def test_a_body_of_a_byte_more_is_not() -> None:
    answer = requests.Response()
    answer.raw = urllib3.HTTPResponse(io.BytesIO(b"x" * (MIB + 1)), preload_content=False)
    with pytest.raises(BodyTooLarge):
        hold_body(answer, most_bytes=MIB)
