"""Keep other sites from a server that has no login: any page could have a browser on this machine send requests.

Browsers say where a request comes from (`Origin`, `Sec-Fetch-Site`: the Fetch Metadata specification of the W3C);
programs that are no browsers say nothing. A name that somebody makes lead to this machine (DNS rebinding) is none of
the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine that nobody else can give to another one."""
_READING = frozenset({"GET", "HEAD"})
_OWN_SITE = frozenset({"same-origin", "none"})
"""`none`: a person typed the address."""


class SameOriginMiddleware:
    """Refuse, by 403 and a reason, requests under a host name not in `hosts`, and changes asked for by another site.

    A WebSocket counts as a change, since a browser lets every site open one and read what it brings. `guards`: which
    requests are looked at; all by default.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], guards: Callable[[Scope], bool] = lambda _scope: True
    ) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._guards = guards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request unless another site sent it."""
        if scope["type"] in ("http", "websocket") and self._guards(scope):
            problem = self._problem(scope, Headers(scope=scope))
            if problem is not None:
                await _refuse(problem, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, scope: Scope, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if _host_name(host) not in self._hosts:
            return f"this server answers requests to {', '.join(sorted(self._hosts))} alone"
        if scope["type"] == "http" and scope["method"] in _READING:
            return None
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        # Where a proxy ends TLS, the browser knows the site by https and this server by http.
        own = {f"{scheme}://{host}", f"https://{host}"}
        if (
            headers.get("origin", f"{scheme}://{host}") not in own
            or headers.get("sec-fetch-site", "none") not in _OWN_SITE
        ):
            return "a page of another site may not change anything here"
        return None


async def _refuse(problem: str, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": problem})  # before it is accepted: HTTP 403
    else:
        await JSONResponse({"error": problem}, status_code=403)(scope, receive, send)


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket that is not closed
        return ""
