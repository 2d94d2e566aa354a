"""What needs no token is kept from other sites: a page elsewhere could have a browser on this machine send requests.

Browsers say where a request comes from (`Origin`, `Sec-Fetch-Site`); programs that are no browsers say nothing. A name
that somebody makes lead to this machine (DNS rebinding) is none of the org's.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/emulator"
_READING = frozenset({"GET", "HEAD"})
_OWN_SITE = frozenset({"same-origin", "none"})
"""`none`: a person typed the address."""


class SameOriginMiddleware:
    """403 at the root and below `/emulator` for another host than `hosts`, and for changes that another site asks
    for."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["path"] == "/" or scope["path"].startswith(PREFIX)):
            problem = self._problem(scope, Headers(scope=scope))
            if problem is not None:
                await JSONResponse({"error": problem}, status_code=403)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if _host_name(host) not in self._hosts:
            return f"the control resource answers {', '.join(sorted(self._hosts))} alone"
        if scope["method"] in _READING:
            return None
        origin = headers.get("origin", f"{scope['scheme']}://{host}")
        if origin != f"{scope['scheme']}://{host}" or headers.get("sec-fetch-site", "none") not in _OWN_SITE:
            return "a page of another site may not change the org"
        return None


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket that is not closed
        return ""
