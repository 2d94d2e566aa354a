"""Faults of the REST side, armed for a path; the emulated org commits each as often as it was armed
(docs/salesforce-streams.md, "REST errors").

They strike before the org looks at a request, whatever its token.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sfcdc_assets.emulator.control.control_route import PREFIX
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.interrupted_body import halved
from sfcdc_assets.emulator.rest.rest_context import error_response

_DATA = re.compile(r"/services/data/v\d+\.\d+")


class RestFault(StrEnum):
    """What can go wrong with a request."""

    UNAUTHORIZED = "unauthorized"
    REQUEST_LIMIT = "request_limit"
    TOO_MANY_REQUESTS = "too_many_requests"
    UNAVAILABLE = "unavailable"
    SERVER_ERROR = "server_error"
    URI_TOO_LONG = "uri_too_long"
    GARBAGE = "garbage"
    CUT_OFF = "cut_off"
    TIMEOUT = "timeout"
    SLOW = "slow"
    BODY_CUT = "body_cut"
    LOCATOR_GONE = "locator_gone"
    REFUSED = "refused"


DESCRIPTIONS: Mapping[RestFault, str] = {
    RestFault.UNAUTHORIZED: "401 INVALID_SESSION_ID, as for a token that has expired",
    RestFault.REQUEST_LIMIT: "403 REQUEST_LIMIT_EXCEEDED, as when the day's requests are used up",
    RestFault.TOO_MANY_REQUESTS: "429, with Retry-After if `retry_after` (seconds) is given",
    RestFault.UNAVAILABLE: "503 SERVER_UNAVAILABLE, with Retry-After if `retry_after` (seconds) is given",
    RestFault.SERVER_ERROR: "500 UNKNOWN_EXCEPTION",
    RestFault.URI_TOO_LONG: "414 with a page of HTML, as from a proxy",
    RestFault.GARBAGE: "200 with a page of HTML where JSON or CSV is expected",
    RestFault.CUT_OFF: "200 with a body that ends early: the connection closes after half of what was announced",
    RestFault.TIMEOUT: "no answer for `seconds` (default 600), or until the client gives up; then 503",
    RestFault.SLOW: "the org's own answer, with a pause of `seconds` (default 5) in the middle of its body",
    RestFault.BODY_CUT: "the org's own answer, CSV or JSON, and the connection breaks in the middle of its body",
    RestFault.LOCATOR_GONE: "400 INVALID_QUERY_LOCATOR, as when a query's next page is asked for too late (`path` is"
    " /query/ unless given)",
    RestFault.REFUSED: "the error `code` (default API_DISABLED_FOR_ORG), of those that no request brings about",
}
"""What each fault answers, with its options."""

_ERRORS: Mapping[RestFault, ApiError] = {
    RestFault.UNAUTHORIZED: ApiError("INVALID_SESSION_ID", "Session expired or invalid", status=401),
    RestFault.REQUEST_LIMIT: ApiError("REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded.", status=403),
    RestFault.TOO_MANY_REQUESTS: ApiError("REQUEST_LIMIT_EXCEEDED", "Too many requests.", status=429),
    RestFault.UNAVAILABLE: ApiError("SERVER_UNAVAILABLE", "Server unavailable. Please try again later.", status=503),
    RestFault.LOCATOR_GONE: ApiError("INVALID_QUERY_LOCATOR", "invalid query locator"),
    RestFault.SERVER_ERROR: ApiError("UNKNOWN_EXCEPTION", "An unexpected error occurred.", status=500),
}
REFUSALS: Mapping[str, ApiError] = {
    error.error_code: error
    for error in (
        ApiError("API_DISABLED_FOR_ORG", "The REST API is not enabled for this Organization.", status=403),
        ApiError("QUERY_TIMEOUT", "Your query request was running for too long."),
        ApiError("EXCEEDED_ID_LIMIT", "Too many IDs are in the window. Ask for a shorter one."),
        ApiError("OPERATION_TOO_LARGE", "The operation takes too long. Ask for fewer records."),
    )
}
"""What `refused` answers with, by `code`."""
_PATHS = {RestFault.LOCATOR_GONE: "/query/"}
_SECONDS = {RestFault.TIMEOUT: 600.0, RestFault.SLOW: 5.0}
_PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1></body></html>"


@dataclass(frozen=True)
class ArmedRestFault:
    """A fault, how often it will still happen, and where: `path` is compared with what follows the version
    (`/query`), or with the whole path if it begins with `/services`; `method` empty: any."""

    fault: RestFault
    times: int
    path: str = ""
    method: str = ""
    retry_after: int | None = None
    seconds: float = 0.0
    code: str = ""

    def strikes(self, method: str, path: str) -> bool:
        """Return whether the fault is meant for a request."""
        if self.method and self.method.upper() != method:
            return False
        if self.path.startswith("/services"):
            return path.startswith(self.path)
        data = _DATA.match(path)
        return data is not None and path[data.end() :].startswith(self.path)


class RestFaults:
    """The armed faults, first armed first committed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[ArmedRestFault] = []
        self._struck: Counter[RestFault] = Counter()

    def arm(
        self,
        fault: RestFault,
        times: int = 1,
        *,
        path: str = "",
        method: str = "",
        retry_after: int | None = None,
        seconds: float | None = None,
        code: str = "API_DISABLED_FOR_ORG",
    ) -> None:
        """Commit `fault` at the next `times` requests whose path begins with `path` (see ArmedRestFault)."""
        where = path or _PATHS.get(fault, "")
        long = _SECONDS.get(fault, 0.0) if seconds is None else seconds
        with self._lock:
            self._armed.append(ArmedRestFault(fault, times, where, method, retry_after, long, code))

    def struck(self, fault: RestFault) -> int:
        """Return how often `fault` has happened since the process started."""
        return self._struck[fault]

    def disarm(self, fault: RestFault | None = None) -> None:
        """Forget everything armed, or one fault on whatever path."""
        with self._lock:
            self._armed = [each for each in self._armed if fault is not None and each.fault is not fault]

    def armed(self) -> list[ArmedRestFault]:
        """Return what will still happen."""
        with self._lock:
            return list(self._armed)

    def take(self, method: str, path: str) -> ArmedRestFault | None:
        """Return the fault that happens to this request, if any; it is used up once."""
        if not self._armed:
            return None
        with self._lock:
            for number, armed in enumerate(self._armed):
                if armed.strikes(method, path):
                    self._struck[armed.fault] += 1
                    if armed.times > 1:
                        self._armed[number] = ArmedRestFault(**{**vars(armed), "times": armed.times - 1})
                    else:
                        del self._armed[number]
                    return armed
        return None


class RestFaultMiddleware:
    """Commits armed faults in place of the application; the control resource is never struck."""

    def __init__(self, app: ASGIApp, faults: RestFaults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, or what an armed fault makes of it."""
        if scope["type"] != "http" or scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        armed = self._faults.take(scope["method"], scope["path"])
        if armed is None:
            await self._app(scope, receive, send)
            return
        if armed.fault in (RestFault.SLOW, RestFault.BODY_CUT):
            pause = None if armed.fault is RestFault.BODY_CUT else armed.seconds
            await self._app(scope, receive, halved(send, pause))
            return
        await Request(scope, receive).body()
        if armed.fault is RestFault.TIMEOUT:
            try:
                await asyncio.wait_for(_disconnected(receive), armed.seconds)
                return
            except TimeoutError:
                pass
        await _answer(armed)(scope, receive, send)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _answer(armed: ArmedRestFault) -> Response:
    if armed.fault is RestFault.URI_TOO_LONG:
        return Response(_PAGE.format("414 URI Too Long"), status_code=414, media_type="text/html")
    if armed.fault is RestFault.GARBAGE:
        return Response(_PAGE.format("Down for Maintenance"), media_type="text/html")
    if armed.fault is RestFault.CUT_OFF:
        half = b'[{"attributes": {"type": "Acc'
        return Response(half, media_type="application/json", headers={"Content-Length": str(2 * len(half))})
    if armed.fault is RestFault.REFUSED:
        error = REFUSALS[armed.code]
    else:
        error = _ERRORS[RestFault.UNAVAILABLE if armed.fault is RestFault.TIMEOUT else armed.fault]
    response = error_response([error])
    if armed.retry_after is not None:
        response.headers["Retry-After"] = str(armed.retry_after)
    return response
