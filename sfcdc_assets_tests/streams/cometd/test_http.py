"""Answers that are none, and what is said of them: no token, no page of a proxy, always a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from requests.adapters import HTTPAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from sfcdc_assets.runtime.clock import Clock
from sfcdc_assets.streams.cometd.client import BayeuxClient
from sfcdc_assets.streams.cometd.errors import (
    BrokenAnswer,
    CometdError,
    CometdUnavailable,
    RequestTooLarge,
    ServerBusy,
    SessionLost,
    TokenExpired,
    VersionRefused,
)
from sfcdc_assets.streams.cometd.http import CometdHttp
from sfcdc_assets.streams.cometd.replies import Advice
from sfcdc_assets_tests.emulator.rest_server import serving

TOKEN = "00D!secret-token"
HANDSHAKE = {"channel": "/meta/handshake", "id": "1", "successful": True, "clientId": "c", "version": "1.0"}
Answer = Callable[[Request], Response]


@pytest.fixture(scope="module")
def scripted() -> Iterator[tuple[str, list[Answer]]]:
    """The address of a service that gives the one answer in the list."""
    answers: list[Answer] = []

    async def endpoint(request: Request) -> Response:
        return answers[0](request)

    with serving(Starlette(routes=[Route("/cometd/60.0", endpoint, methods=["POST"])])) as address:
        yield f"{address}/cometd/60.0", answers


def client(url: str) -> BayeuxClient:
    return BayeuxClient(CometdHttp(url, lambda: TOKEN, HTTPAdapter()), Clock())


def echo(request: Request) -> Response:
    return PlainTextResponse(f"You sent {request.headers['authorization']}", status_code=500)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (echo, CometdUnavailable, "You sent Bearer ***"),
        (lambda _: PlainTextResponse("Maximum Request Size Exceeded", 413), RequestTooLarge, "Maximum Request Size"),
        (lambda _: Response("<html>Down</html>", 503, media_type="text/html"), ServerBusy, "Service Unavailable"),
        (lambda _: Response("<html>Hello</html>", media_type="text/html"), BrokenAnswer, "18 bytes of text/html"),
        (lambda _: RedirectResponse("https://elsewhere.example/"), BrokenAnswer, "0 bytes"),
        (lambda _: Response('[{"channel":"/meta/hand', media_type="application/json"), BrokenAnswer, "23 bytes"),
        (lambda _: JSONResponse([1]), BrokenAnswer, "not a whole list"),
        (lambda _: JSONResponse([]), BrokenAnswer, "there is no reply in it"),
        (lambda _: JSONResponse([{"message": "no"}], 401), TokenExpired, "401: no"),
        (lambda _: JSONResponse([{"message": "no"}], 403), TokenExpired, "403: no"),
        (
            lambda _: JSONResponse(
                [{"channel": "/meta/handshake", "error": "403::Unknown client", "successful": False}], 403
            ),
            SessionLost,
            "Unknown client",
        ),
        (lambda _: JSONResponse([HANDSHAKE]), VersionRefused, "does not offer to replay"),
        (lambda _: JSONResponse([{**HANDSHAKE, "clientId": None}]), BrokenAnswer, "no clientId"),
    ],
)
def test_an_answer_that_is_none_is_reported(
    scripted: tuple[str, list[Answer]], answer: Answer, kind: type[CometdError], said: str
) -> None:
    url, answers = scripted
    answers[:] = [answer]
    with pytest.raises(kind) as refused:
        client(url).handshake()
    assert type(refused.value) is kind
    assert said in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert "html>" not in str(refused.value)


def test_one_message_that_is_no_list_is_an_answer_too(scripted: tuple[str, list[Answer]]) -> None:
    url, answers = scripted
    answers[:] = [lambda _: JSONResponse({**HANDSHAKE, "ext": {"replay": True}})]
    one = client(url)
    one.handshake()
    assert one.client_id == "c"


def test_a_pause_that_is_asked_for_is_kept(scripted: tuple[str, list[Answer]]) -> None:
    url, answers = scripted
    answers[:] = [lambda _: PlainTextResponse("later", 503, headers={"Retry-After": "7"})]
    with pytest.raises(ServerBusy) as busy:
        client(url).handshake()
    assert busy.value.pause == 7


def test_a_service_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(CometdUnavailable, match="the connection was refused"):
        client("http://localhost:9/cometd/60.0").handshake()


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        ({}, Advice("retry", 1.0, 110.0)),
        ({"advice": {"reconnect": "handshake", "interval": 500}}, Advice("handshake", 0.5, 110.0)),
        ({"advice": {"reconnect": "none", "interval": 0, "timeout": 5000}}, Advice("none", 0.0, 5.0)),
        ({"advice": {"reconnect": "perhaps", "interval": -1, "timeout": "long"}}, Advice("retry", 1.0, 110.0)),
        ({"advice": {"interval": True, "timeout": None}}, Advice("retry", 1.0, 110.0)),
        ({"advice": "wait"}, Advice("retry", 1.0, 110.0)),
    ],
)
def test_advice_is_in_milliseconds_and_what_it_leaves_out_stays(reply: dict[str, object], advice: Advice) -> None:
    assert Advice("retry", 1.0, 110.0).after(reply) == advice
