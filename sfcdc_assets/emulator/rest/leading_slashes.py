"""Paths that begin with more than one slash: a client sends them that puts a path behind an instance URL which ends in
a slash (the vendor's command line interface, logged in by an access token), and Salesforce answers."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class LeadingSlashesMiddleware:
    """One slash in place of several at the beginning, and only there: values in a path keep theirs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("//"):
            scope = {
                **scope,
                "path": "/" + scope["path"].lstrip("/"),
                "raw_path": b"/" + scope["raw_path"].lstrip(b"/"),
            }
        await self._app(scope, receive, send)
