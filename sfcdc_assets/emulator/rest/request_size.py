"""Requests that are too long for a web server, answered as Salesforce's own does before it looks at them."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sfcdc_assets.emulator.org import EmulatedOrg

_AROUND_TARGET = len(" HTTP/1.1\r\n") + 1
_AROUND_HEADER = len(": \r\n")


class RequestSizeMiddleware:
    """414 for a request line, and 431 for line and headers, beyond `OrgSettings.most_request_bytes`."""

    def __init__(self, app: ASGIApp, org: EmulatedOrg) -> None:
        self._app = app
        self._org = org

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
