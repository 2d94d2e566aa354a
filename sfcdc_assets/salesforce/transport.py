"""HTTP to the org and its login host: TLS, time limits, bounded tries, redirects kept at home. Knows no token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import urlsplit

import requests
import tenacity

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.progress import RequestSent, notify
from sfcdc_assets.salesforce.answers import MOST_BYTES, BodyTooLarge, hold_body
from sfcdc_assets.salesforce.errors import CertificateNotTrusted, OrgUnavailable, OrgUnreachable, UnexpectedAnswer
from sfcdc_assets.salesforce.rest_deadline import unanswered_time, unanswered_time_for
from sfcdc_assets.salesforce.retry import (
    RETRIED_STATUSES,
    Transient,
    backoff,
    certificate_problem,
    retry_after_s,
    transient_of,
)
from sfcdc_assets.salesforce.tls import TrustedRootsAdapter

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 120.0
"""The org itself ends a query after 120 s, so a longer silence has no answer behind it."""
READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
TRIES = 6
TRIES_OF_AN_UNKNOWN_HOST = 2


@dataclass(frozen=True)
class Answer:
    """How an answer is taken.

    `receive` reads the body of a 2xx answer inside the try, so that a broken body is a failed try; it must start again
    at each call. Every other body is held, up to `most_bytes`, unpacked. `retried`: statuses of a failed try.
    """

    receive: Callable[[requests.Response], None] | None = None
    most_bytes: int = MOST_BYTES
    retried: frozenset[int] = RETRIED_STATUSES


class NoAuthorization(requests.auth.AuthBase):
    """Sends what the caller put into the headers. Without an `auth`, requests takes one from ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request as it is."""
        return request


class Transport(requests.Session):
    """A `requests.Session` that tries again where that is safe and reports failures as `SfcdcError`s.

    One object serves several threads: the connection pool is thread-safe, and cookies, the one thing requests would
    change on each answer, are refused (the REST side needs none).
    """

    def __init__(
        self,
        adapter: TrustedRootsAdapter,
        *,
        sleep: Callable[[float], None] = clock.sleep,
        timeout_s: tuple[float, float] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
    ) -> None:
        super().__init__()
        self.mount("https://", adapter)
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.auth = NoAuthorization()
        self._sleep = sleep
        self._timeout_s = timeout_s
        self._hosts_that_answered: set[str] = set()
        self._count_lock = threading.Lock()
        self.calls = 0
        """Requests sent to versioned REST resources, each try counted: what the org counts as API requests."""
        self._of_thread = threading.local()

    @property
    def calls_of_this_thread(self) -> int:
        """Those of `calls` that this thread has sent."""
        return int(getattr(self._of_thread, "calls", 0))

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Follow a redirect only within the same scheme and host: another host must not see the token."""
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        here, there = urlsplit(resp.url), urlsplit(requests.compat.urljoin(resp.url, target))
        return target if (here.scheme, here.netloc) == (there.scheme, there.netloc) else None

    def call(
        self,
        method: str,
        url: str,
        *,
        setting: str,
        repeatable: bool,
        tries: int = TRIES,
        answer: Answer = Answer(),
        **options: Any,
    ) -> requests.Response:
        """Send one request, up to `tries` times, and return the answer whatever its status below 500.

        `repeatable`: sending it twice does no harm; if False it is sent again only when it cannot have arrived.
        `setting`: the setting that named the host, for errors.
        Raises OrgUnreachable, CertificateNotTrusted, OrgUnavailable, UnexpectedAnswer.
        """
        where, host, patience = url.partition("?")[0], urlsplit(url).netloc, unanswered_time_for(url)

        def one_try() -> requests.Response:
            try:
                return self._taken(self._send(method, url, options), where, setting, answer, repeatable=repeatable)
            except BodyTooLarge:
                raise UnexpectedAnswer(where, f"it is longer than {answer.most_bytes:,} bytes", setting) from None
            except requests.exceptions.RequestException as error:
                not_trusted = certificate_problem(error)
                if not_trusted is not None:
                    raise CertificateNotTrusted(f"https://{host}", setting, not_trusted) from error
                transient = transient_of(error)
                if transient is None:
                    # The text is left out: requests quotes header values and URLs in some of them.
                    raise UnexpectedAnswer(where, f"it is not usable ({type(error).__name__})", setting) from None
                raise transient from error

        def enough(state: tenacity.RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome else None
            if not isinstance(error, Transient):
                return True
            if not repeatable and error.connected:
                return True
            # A host that never answered is more likely a wrong setting than an outage: say so soon.
            unknown = not error.connected and host not in self._hosts_that_answered
            is_over = patience is not None and patience.is_over
            return is_over or state.attempt_number >= (min(tries, TRIES_OF_AN_UNKNOWN_HOST) if unknown else tries)

        def tell(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if isinstance(error, Transient) and error.timed_out:  # who waits has heard nothing for minutes
                log.warning(
                    "The org did not answer %s (%s); try %d follows.", where, error.problem, state.attempt_number + 1
                )

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Transient),
            stop=enough,
            wait=backoff if patience is None else patience.pause,
            sleep=self._sleep,
            before_sleep=tell,
            reraise=True,
        )
        try:
            return retrying(one_try if patience is None else partial(patience.spent_by, one_try))
        except Transient as error:
            if not error.connected and host not in self._hosts_that_answered:
                raise OrgUnreachable(f"https://{host}", setting, error.problem) from error
            made = retrying.statistics["attempt_number"]
            raise OrgUnavailable(where, made, error.problem, timed_out=error.timed_out, status=error.status) from error

    def _taken(
        self, response: requests.Response, where: str, setting: str, answer: Answer, *, repeatable: bool
    ) -> requests.Response:
        """Return the response with its body read. Raises `Transient` where another try may do better."""
        self._hosts_that_answered.add(urlsplit(where).netloc)
        received = answer.receive if response.ok else None
        if received is None:
            hold_body(response, most_bytes=answer.most_bytes)
        if repeatable and response.status_code in answer.retried:
            raise Transient(
                f"HTTP {response.status_code} {response.reason or ''}".strip(),
                connected=True,
                timed_out=response.status_code == 504,
                retry_after_s=retry_after_s(response),
                status=response.status_code,
            )
        if response.is_redirect:
            raise UnexpectedAnswer(where, f"it sends on to another host (HTTP {response.status_code})", setting)
        if received is not None:
            received(response)
        return response

    def _send(self, method: str, url: str, options: dict[str, Any]) -> requests.Response:
        if urlsplit(url).path.startswith("/services/data/v"):
            with self._count_lock:
                self.calls += 1
            self._of_thread.calls = self.calls_of_this_thread + 1
            notify(RequestSent())
        timeout_s, patience = self._timeout_s, unanswered_time()
        if patience is not None:
            timeout_s = (min(timeout_s[0], patience.left), min(timeout_s[1], patience.left))
        return super().request(method, url, **{"timeout": timeout_s, **options, "stream": True})
