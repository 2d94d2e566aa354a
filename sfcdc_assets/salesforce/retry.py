"""Which failures of a request pass by themselves, and how long to wait before the next try."""

from __future__ import annotations

import email.utils
import ssl
import time
from collections.abc import Iterator

import requests
import tenacity
import urllib3.exceptions

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
LONGEST_RETRY_AFTER_S = 60.0
_BACKOFF = tenacity.wait_random_exponential(multiplier=0.5, max=30)


class Transient(Exception):
    """One try failed in a way that the next one may not. Never leaves this package.

    `connected` is False when the request cannot have reached the org, so that even a write may be sent again.
    """

    def __init__(
        self,
        problem: str,
        *,
        connected: bool,
        timed_out: bool = False,
        retry_after_s: float = 0.0,
        status: int | None = None,
    ) -> None:
        self.problem = problem
        self.status = status
        self.connected = connected
        self.timed_out = timed_out
        self.retry_after_s = retry_after_s
        super().__init__(problem)


def backoff(state: tenacity.RetryCallState) -> float:
    """Seconds to wait: exponential with full jitter up to 30 s, or longer when the org asks for it (up to 60 s)."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after_s if isinstance(error, Transient) else 0.0
    return max(asked, float(_BACKOFF(state)))


def retry_after_s(response: requests.Response) -> float:
    """Return the answer's Retry-After (seconds or an HTTP date) in seconds, 0 without one, at most 60."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit():
        return min(float(value), LONGEST_RETRY_AFTER_S)
    try:
        wanted = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return 0.0
    return min(max(wanted, 0.0), LONGEST_RETRY_AFTER_S)


def transient_of(error: requests.exceptions.RequestException) -> Transient | None:
    """Return the failure in plain words, without URL or headers; None when another try cannot help."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Transient("no connection within the time limit", connected=False, timed_out=True)
    if isinstance(error, requests.exceptions.Timeout):
        return Transient("no answer within the time limit", connected=True, timed_out=True)
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return Transient("the connection broke in the middle of the answer", connected=True)
    if not isinstance(error, requests.exceptions.ConnectionError):
        return None
    wrapped = list(causes(error))

    def one_of(kind: type[BaseException]) -> BaseException | None:
        return next((cause for cause in wrapped if isinstance(cause, kind)), None)

    # From the most to the least telling: urllib3 wraps a refused connection in a NewConnectionError, and so on.
    if one_of(urllib3.exceptions.NameResolutionError):
        return Transient("the host name does not resolve", connected=False)
    if one_of(ConnectionRefusedError):
        return Transient("the connection was refused", connected=False)
    if one_of(urllib3.exceptions.NewConnectionError):
        return Transient("no connection could be made", connected=False)
    if one_of(urllib3.exceptions.ReadTimeoutError):
        # requests reports a read timeout in the middle of a streamed body as a ConnectionError.
        return Transient("no answer within the time limit", connected=True, timed_out=True)
    if isinstance(error, requests.exceptions.SSLError):
        # Shown by the class: in the handshake, so nothing of the request was sent.
        reason = getattr(one_of(ssl.SSLError), "reason", None)
        return Transient(f"TLS failed: {reason or 'the connection broke'}", connected=False)
    return Transient("the connection broke", connected=True)


def certificate_problem(error: BaseException) -> str | None:
    """Return why the server's certificate was not accepted; None when that was not the problem."""
    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it wraps; requests and urllib3 put the cause in `args`, `reason` or `__context__` by turns."""
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [*found.args, getattr(found, "reason", None), found.__cause__, found.__context__]
