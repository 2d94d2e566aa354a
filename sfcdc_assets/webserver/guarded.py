"""Dagster's own webserver with a guard before it.

Dagster 1.13 answers requests under any host name, takes changes from pages of any site, and executes mutations that
are sent by GET, which an image on a page can send (docs/dagster-notes.md, "The webserver trusts every page").
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qs

from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sfcdc_assets.webserver.same_origin import SameOriginMiddleware

_LOADED_FROM = "; img-src 'self' data: blob:; connect-src 'self' ws: wss:; form-action 'self'; frame-ancestors 'none'"
"""Added to Dagster's Content-Security-Policy: nothing that a page shows makes a browser ask another host."""


class PostedQueriesMiddleware:
    """Refuse GraphQL that comes otherwise than as JSON by POST: 405 or 415. No other form needs a page's consent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request unless it is a query that should have been posted."""
        refused = _problem(scope) if scope["type"] == "http" and scope["path"].endswith("/graphql") else None
        if refused is None:
            await self._app(scope, receive, send)
        else:
            status, problem = refused
            await JSONResponse({"error": problem}, status_code=status)(scope, receive, send)


def _problem(scope: Scope) -> tuple[int, str] | None:
    has_query = b"query" in parse_qs(scope["query_string"], keep_blank_values=True)
    if has_query:
        return 405, "send GraphQL queries by POST, in the body"
    if scope["method"] != "POST":
        return None
    content_type = dict(scope["headers"]).get(b"content-type", b"").split(b";")[0].strip().lower()
    return None if content_type == b"application/json" else (415, "send GraphQL queries as application/json")


def guarded_webserver(hosts: Collection[str]) -> type[DagsterWebserver[Any, Any]]:
    """Dagster's webserver, for the host names by which people reach it."""

    class GuardedWebserver(DagsterWebserver[Any, Any]):
        def build_middleware(self) -> list[Middleware]:
            guards = [Middleware(SameOriginMiddleware, hosts=hosts), Middleware(PostedQueriesMiddleware)]
            return [*guards, *super().build_middleware()]

        def make_csp_header(self, nonce: str) -> str:
            return super().make_csp_header(nonce).rstrip().rstrip(";") + _LOADED_FROM

        def make_security_headers(self) -> dict[str, str]:
            return {**super().make_security_headers(), "X-Frame-Options": "DENY"}

    return GuardedWebserver
