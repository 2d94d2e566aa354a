"""The Streaming API by HTTP: `POST /cometd/{version}` and `/cometd/replay/{version}`, with or without the name of the
message behind, as some clients append it."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sfcdc_assets.emulator.cometd import refusals
from sfcdc_assets.emulator.cometd.client_session import COOKIE
from sfcdc_assets.emulator.cometd.messages import CometdAnswer, CometdCall
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.rest.interrupted_body import halved
from sfcdc_assets.emulator.rest.json_body import parse_json

MOST_BYTES = 32_768
"""Of a request's body; cookies and headers are not reckoned."""
_MOST_WAITING = 2_000
_TOKEN = re.compile(r"(?:Bearer|OAuth)\s+(\S+)", re.IGNORECASE)
_VERSION = re.compile(r"(\d{1,3})\.0")
_OLDEST, _FIRST_THAT_REPLAYS = 23, 37


def cometd_routes(service: CometdService) -> list[Route]:
    """All addresses of the Streaming API."""
    limiters: list[anyio.CapacityLimiter] = []

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        if len(body) > MOST_BYTES:
            return PlainTextResponse("Maximum Request Size Exceeded", status_code=413)
        try:
            found = parse_json(body)
        except ValueError:
            return PlainTextResponse("The request is no JSON", status_code=400)
        messages = found if isinstance(found, list) else [found]
        if not messages or not all(isinstance(each, dict) for each in messages):
            return PlainTextResponse("The request has no Bayeux messages", status_code=400)
        call = _call(service, request, messages)
        if not limiters:
            limiters.append(anyio.CapacityLimiter(_MOST_WAITING))
        watcher = asyncio.ensure_future(_watch(service, request, call))
        try:
            answer = await anyio.to_thread.run_sync(service.answer, call, limiter=limiters[0])
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
        return _response(answer)

    paths = ("/cometd", "/cometd/", "/cometd/{version}", "/cometd/{version}/", "/cometd/{version}/{action}")
    replaying = [path.replace("/cometd/", "/cometd/replay/") for path in paths[2:]]
    return [Route(path, endpoint, methods=["POST"]) for path in (*replaying, *paths)]


def _call(service: CometdService, request: Request, messages: list[dict[str, object]]) -> CometdCall:
    token = _TOKEN.fullmatch(request.headers.get("authorization", ""))
    given = request.path_params.get("version")
    version = _VERSION.fullmatch(given or "")
    number = int(version[1]) if version else 0
    is_replaying = request.url.path.startswith("/cometd/replay/")
    refusal = None
    if not given:
        refusal = refusals.VERSION_MANDATORY
    elif not _OLDEST <= number <= max(service.org.settings.api_versions):
        refusal = refusals.UNSUPPORTED_VERSION
    user_id = service.user_of(token[1]) if token else None
    return CometdCall(
        messages,
        has_token=token is not None,
        user_id=user_id,
        cookie=request.cookies.get(COOKIE),
        replays=is_replaying or number >= _FIRST_THAT_REPLAYS,
        refusal=refusal,
        is_still_authorized=lambda: token is not None and service.user_of(token[1]) == user_id,
    )


async def _watch(service: CometdService, request: Request, call: CometdCall) -> None:
    """Tell a held connect that its client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    call.is_gone.set()
    service.bus.wake()


class _SlowResponse(Response):
    """Has a pause of so many seconds in the middle of its body."""

    pause: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send if self.pause is None else halved(send, self.pause))


def _response(answer: CometdAnswer) -> Response:
    content = json.dumps(answer.messages, separators=(",", ":")).encode()
    if answer.is_reset:
        # A connection that closes before what was announced.
        return Response(b"", headers={"Content-Length": "2"}, media_type="application/json")
    if answer.is_cut:
        content = content[: len(content) // 2]
    response = _SlowResponse(content, media_type="application/json;charset=UTF-8")
    response.pause = answer.pause
    if answer.cookie is not None:
        response.set_cookie(COOKIE, answer.cookie, path="/cometd/", secure=True, httponly=True)
    return response
