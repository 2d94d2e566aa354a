"""Names of response headers as Salesforce writes them: `Sforce-Limit-Info`, not `sforce-limit-info`.

HTTP does not tell them apart, but clients do that copy the headers into a plain dictionary.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfcdc_assets.emulator.org import EmulatedOrg

_UNLIKE_OTHERS = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}


class HeaderNamesMiddleware:
    """The outermost middleware: whatever answers, its headers are named so. Needs a server that keeps the names."""

    def __init__(self, app: ASGIApp, org: EmulatedOrg) -> None:
        self._app = app
        self._org = org

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(_name(bytes(name)), value) for name, value in message.get("headers", ())]
                date = formatdate(time.time() + self._org.clock_skew / 1000, usegmt=True)
                message = {**message, "headers": [(b"Date", date.encode()), *headers]}
            await send(message)

        await self._app(scope, receive, named)


@lru_cache(maxsize=256)
def _name(name: bytes) -> bytes:
    lower = name.lower()
    return _UNLIKE_OTHERS.get(lower) or b"-".join(part.capitalize() for part in lower.split(b"-"))
