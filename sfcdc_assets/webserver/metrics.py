"""`/metrics`: a text that is computed at most every fifteen seconds, however many ask for it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import PortInUseError, SfcdcError
from sfcdc_assets.webserver.same_origin import SameOriginMiddleware

KEPT_SECONDS = 15.0
END_SECONDS = 3.0
"""How long an answer that is under way may take when the server ends."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class CachedText:
    """What `compute` returned, for `KEPT_SECONDS`. Who asks while it is computed waits for it."""

    def __init__(self, compute: Callable[[], str]) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._text, self._until = "", float("-inf")

    def __call__(self) -> str:
        """Return it. Raises what computing raises, and is then computed for the next who asks."""
        with self._lock:
            if clock.current().monotonic() >= self._until:
                self._text = self._compute()
                self._until = clock.current().monotonic() + KEPT_SECONDS
            return self._text


def metrics_app(compute: Callable[[], str], hosts: Collection[str]) -> Starlette:
    """Return the application. It answers under these host names alone, and 503 with the reason when the text cannot be
    computed."""
    text = CachedText(compute)

    def metrics(_request: Request) -> PlainTextResponse:
        try:
            return PlainTextResponse(text(), headers={"content-type": CONTENT_TYPE})
        except SfcdcError as error:
            return PlainTextResponse(f"{error}\n", status_code=503)

    return Starlette(
        routes=[Route("/metrics", metrics, methods=["GET"])],
        middleware=[Middleware(SameOriginMiddleware, hosts=hosts)],
    )


@contextmanager
def serving(app: Starlette, host: str, port: int) -> Iterator[int]:
    """Serve an application on this address while entered; yields the port. Raises `PortInUseError` where it cannot be
    listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise PortInUseError(f"metrics on {host} (--serve)", port) from error
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", access_log=False, log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="metrics", daemon=True)
    with listening:
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(END_SECONDS)
