"""Requests and headers as Salesforce's web servers take and write them."""

from __future__ import annotations

from email.utils import formatdate
from functools import lru_cache

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfcdc_assets.emulator.org.org import EmulatedOrg

_AROUND_TARGET = len(" HTTP/1.1\r\n") + 1
_AROUND_HEADER = len(": \r\n")


class RequestSizeMiddleware:
    """414 for a request line, and 431 for line and headers, beyond `OrgSettings.most_request_bytes`."""

    def __init__(self, app: ASGIApp, org: EmulatedOrg) -> None:
        self._app = app
        self._org = org

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request unless its line or its headers are too long."""
        if scope["type"] == "http":
            query = len(scope["query_string"])
            line = len(scope["method"]) + len(scope["raw_path"]) + bool(query) + query + _AROUND_TARGET
            headers = sum(len(name) + len(value) + _AROUND_HEADER for name, value in scope["headers"])
            most = self._org.settings.most_request_bytes
            if line > most:
                await _page("414 URI Too Long", 414)(scope, receive, send)
                return
            if line + headers > most:
                await _page("431 Request Header Fields Too Large", 431)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _page(title: str, status: int) -> Response:
    page = f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return Response(page, status_code=status, media_type="text/html")


class LeadingSlashesMiddleware:
    """One slash in place of several at the beginning, and only there: values in a path keep theirs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with one slash at the beginning of its path."""
        if scope["type"] == "http" and scope["path"].startswith("//"):
            scope = {
                **scope,
                "path": "/" + scope["path"].lstrip("/"),
                "raw_path": b"/" + scope["raw_path"].lstrip(b"/"),
            }
        await self._app(scope, receive, send)


_UNLIKE_OTHERS = {b"etag": b"ETag", b"www-authenticate": b"WWW-Authenticate"}


class HeaderNamesMiddleware:
    """The outermost middleware: whatever answers, its headers are named so. Needs a server that keeps the names."""

    def __init__(self, app: ASGIApp, org: EmulatedOrg) -> None:
        self._app = app
        self._org = org

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request with the answer's header names written as Salesforce writes them."""

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(_name(bytes(name)), value) for name, value in message.get("headers", ())]
                date = formatdate((self._org.clock() + self._org.clock_skew) / 1000, usegmt=True)
                message = {**message, "headers": [(b"Date", date.encode()), *headers]}
            await send(message)

        await self._app(scope, receive, named)


@lru_cache(maxsize=256)
def _name(name: bytes) -> bytes:
    lower = name.lower()
    return _UNLIKE_OTHERS.get(lower) or b"-".join(part.capitalize() for part in lower.split(b"-"))
