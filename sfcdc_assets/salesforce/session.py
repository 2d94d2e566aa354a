"""A session with one org: the token, the version of the API, and requests that outlive expired tokens and hiccups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import requests

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.answers import asked_at, json_of, refusal_of, refuses_the_token
from sfcdc_assets.salesforce.api_version import negotiated_version
from sfcdc_assets.salesforce.errors import ApiLimitReached, OrganizationReplaced, RequestRefused, SessionExpired
from sfcdc_assets.salesforce.login import Login
from sfcdc_assets.salesforce.login_choice import chosen_grant
from sfcdc_assets.salesforce.paused_logins import PausedLogins
from sfcdc_assets.salesforce.record_id import eighteen_characters
from sfcdc_assets.salesforce.tls import TrustedRootsAdapter, trusted_roots
from sfcdc_assets.salesforce.transport import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    READING_METHODS,
    TRIES,
    Answer,
    Transport,
)
from sfcdc_assets.settings.settings import Settings

_SETTING = "SFCDC_INSTANCE_URL"
RENEWED_EVERY_SECONDS = 60.0
"""How long a token that was refused although it was fresh is not renewed: one resource that refuses every token would
cost a login with each request, and logins are counted too."""


class OrgSession:
    """Everything this package asks of the org goes through here. Serves several threads at once.

    Nothing is sent before the first use. A token is kept until the org refuses it; then one fresh token is asked for
    and the request goes on, whatever it is: a query, a locator, a page of a bulk job.
    Raises `SettingsError` at once when the settings hold no way, or more than one way, to log in.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sleep: Callable[[float], None] = clock.sleep,
        now_s: Callable[[], float] = time.time,
        timeout_s: tuple[float, float] = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S),
    ) -> None:
        """`sleep` and `now_s` (epoch seconds) are injected by tests; `timeout_s` is (connect, read)."""
        self._grant = PausedLogins(chosen_grant(settings, now_s))
        self._given_instance_url = settings.instance_url
        self._given_organization_id = eighteen_characters(settings.org_id) if settings.org_id else None
        self._adapter = TrustedRootsAdapter(trusted_roots(settings.ca_file))
        self._transport = Transport(self._adapter, sleep=sleep, timeout_s=timeout_s)
        self._lock = threading.RLock()
        self._login: Login | None = None
        self._version: str | None = None
        self._asked_organization_id: str | None = None
        self._is_taken_for_granted = False
        self._refused_fresh: tuple[str, float] | None = None
        """The token that was refused just after it was got, and when."""
        self._of_thread = threading.local()
        self.sleep = sleep

    def __repr__(self) -> str:
        return f"OrgSession({self._given_instance_url or 'not logged in'}, by {self._grant.name})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The session may be used again; it then connects again."""
        self._transport.close()

    @property
    def calls(self) -> int:
        """API requests sent so far, each try counted: what the org subtracts from its daily allowance."""
        return self._transport.calls

    @property
    def calls_of_this_thread(self) -> int:
        """Those of `calls` that this thread has sent: what one of several things that are done at once has cost."""
        return self._transport.calls_of_this_thread

    @property
    def asked_at(self) -> datetime | None:
        """The time by the org's own clock, UTC, before it was asked for the answer that this thread had last; None
        where its answers have no date. What the org had committed by then, every later answer shows."""
        return getattr(self._of_thread, "asked_at", None)

    def token(self, *, refresh: bool = False) -> str:
        """Return the access token; asked for at the first use, and again with `refresh`.

        Raises LoginRefused, OrgUnreachable, CertificateNotTrusted, OrgUnavailable, and with `refresh` SessionExpired
        when the token was handed over by SFCDC_ACCESS_TOKEN, or was got and refused within a minute.
        """
        with self._lock:
            if refresh and self._login is not None:
                self._renew(self._login.access_token)
            return self._current_login().access_token

    @property
    def instance_url(self) -> str:
        """`https://host[:port]` of the org, without a path: SFCDC_INSTANCE_URL, or what the login answered.

        Raises `InstanceNotTrusted` where the login names a host that is not Salesforce's, and what `token` raises.
        """
        return self._given_instance_url or self._current_login().trusted_instance()

    @property
    def instance_url_of_login(self) -> str | None:
        """Where the login says that the org is, whatever SFCDC_INSTANCE_URL says."""
        return self._current_login().instance_url

    @property
    def organization_id(self) -> str:
        """The org's id, 18 characters: SFCDC_ORG_ID, or what the login answered, or what userinfo says."""
        if self._given_organization_id is not None:
            return self._given_organization_id
        with self._lock:
            if self._asked_organization_id is None:
                self._asked_organization_id = self._current_login().organization_id or self._userinfo_organization()
            return self._asked_organization_id

    def take_for_granted(self, organization_id: str) -> None:
        """Go on as a session with this org although it cannot be asked just now. No request is sent by a later login
        before that is found to be the org's: another one is refused with `OrganizationReplaced`, each time."""
        with self._lock:
            self._asked_organization_id = organization_id
            self._is_taken_for_granted, self._login = True, None

    @property
    def version(self) -> str:
        """Version of the REST resources, such as `64.0`: the newest both sides know. Asked once."""
        with self._lock:
            if self._version is None:
                url = f"{self.instance_url}/services/data"
                response = self._transport.call("GET", url, setting=_SETTING, repeatable=True)
                offered = json_of(response)
                self._version = negotiated_version(url, offered if isinstance(offered, list) else [])
            return self._version

    def request(
        self,
        method: str,
        path: str,
        *,
        what: str | None = None,
        params: Mapping[str, str] | None = None,
        json: object = None,
        repeatable: bool | None = None,
        tries: int = TRIES,
    ) -> Any:
        """Return the JSON of an answer (None when it has no content).

        `path` starts with `/`, or is below `/services/data/v<version>/`. `what` names the request in errors.
        `repeatable`: a POST that only reads may be sent twice; GET always may.
        Raises RequestRefused, UnexpectedAnswer, and what `send` raises.
        """
        response = self.send(
            method,
            self.url_of(path),
            repeatable=method in READING_METHODS if repeatable is None else repeatable,
            tries=tries,
            params=params,
            json=json,
        )
        if not response.ok:
            raise refusal_of(response, what or path)
        return json_of(response)

    def stream(
        self,
        path: str,
        receive: Callable[[requests.Response], None],
        *,
        what: str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """GET a body too large to hold: `receive` reads it from the response, and again when a try breaks in the
        middle.

        Raises RequestRefused and what `send` raises; an error raised by `receive` goes through.
        """
        response = self.send(
            "GET",
            self.url_of(path),
            repeatable=True,
            params=params,
            headers=headers,
            stream=True,
            answer=Answer(receive),
        )
        with response:
            if not response.ok:
                raise refusal_of(response, what or path)
        return response

    def send(self, method: str, url: str, *, repeatable: bool, tries: int = TRIES, **options: Any) -> requests.Response:
        """One request with the token; an answer of 2xx or a refusal (4xx) that the caller must report.

        Raises SessionExpired when a fresh token is refused too (for a minute no other one is asked for then),
        ApiLimitReached (never tried again here), OrgUnavailable, OrgUnreachable, CertificateNotTrusted,
        UnexpectedAnswer, LoginRefused.
        """
        options.update(repeatable=repeatable, tries=tries)
        token = self.token()
        response = self._send_with(token, method, url, options)
        if refuses_the_token(response):
            with self._lock:
                self._renew(token)
            token = self.token()
            response = self._send_with(token, method, url, options)
            if refuses_the_token(response):
                self._refused_fresh = token, clock.current().monotonic()
                raise SessionExpired(self.instance_url, renewed=True)
        if response.status_code in (400, 403):
            refusal = refusal_of(response, url.partition("?")[0])
            if _is_of_the_day(refusal):
                raise ApiLimitReached(self.instance_url, refusal.message)
        return response

    def url_of(self, path: str) -> str:
        """Address of a resource; see `request` for `path`."""
        return self.instance_url + (path if path.startswith("/") else f"/services/data/v{self.version}/{path}")

    def new_adapter(self) -> TrustedRootsAdapter:
        """Make an adapter for connections with cookies and a life of their own, which trust the same roots."""
        return TrustedRootsAdapter(self._adapter.context)

    def _send_with(self, token: str, method: str, url: str, options: dict[str, Any]) -> requests.Response:
        headers = {**(options.get("headers") or {}), "Authorization": f"Bearer {token}"}
        began = clock.current().monotonic()
        response = self._transport.call(method, url, setting=_SETTING, **{**options, "headers": headers})
        self._of_thread.asked_at = asked_at(response, began)
        return response

    def _current_login(self) -> Login:
        with self._lock:
            if self._login is None:
                self._login = self._checked(self._grant.login(self._transport))
                if self._is_taken_for_granted:
                    self._make_sure(self._login)
            return self._login

    def _make_sure(self, login: Login) -> None:
        """Ask whose the login is, where it does not say that itself. The caller holds the lock."""
        before, self._is_taken_for_granted = str(self._asked_organization_id), False
        try:
            found = login.organization_id or self._userinfo_organization()
            if found != before:
                raise OrganizationReplaced(before, found)
        except BaseException:
            self._is_taken_for_granted, self._login = True, None
            raise

    def _renew(self, refused_token: str) -> None:
        """Get a fresh token, unless another thread has already got one. The caller holds the lock."""
        if self._login is not None and self._login.access_token != refused_token:
            return
        if not self._grant.renewable:
            raise SessionExpired(self.instance_url, renewed=False)
        if self._refused_fresh is not None:
            token, at = self._refused_fresh
            if token == refused_token and clock.current().monotonic() - at < RENEWED_EVERY_SECONDS:
                raise SessionExpired(self.instance_url, renewed=True)
        self._login = self._checked(self._grant.login(self._transport))

    def _checked(self, login: Login) -> Login:
        wanted = self._given_organization_id
        if wanted is not None and login.organization_id not in (None, wanted):
            raise SettingsError(
                "SFCDC_ORG_ID",
                f"is {wanted}, but the login is to the org {login.organization_id}",
                "Correct it, or leave it out: the org says its id",
            )
        before = self._asked_organization_id or (self._login.organization_id if self._login else None)
        if before is not None and login.organization_id not in (None, before):
            raise OrganizationReplaced(before, str(login.organization_id))
        return login

    def _userinfo_organization(self) -> str:
        try:
            answer = self.request("GET", "/services/oauth2/userinfo", what="userinfo")
            return eighteen_characters(str(answer["organization_id"]))
        except (RequestRefused, KeyError, TypeError, ValueError) as error:
            problem = "the org does not show its id to this token (userinfo is refused or has none)"
            raise SettingsError(
                "SFCDC_ORG_ID", problem, "Set it: Setup, Company Information, Organization ID"
            ) from error


def _is_of_the_day(refusal: RequestRefused) -> bool:
    """Return whether an allowance of 24 hours is used up: requests, or Bulk API 2.0 jobs and their results, whose
    refusals have the code of any limit."""
    if refusal.error_code == "LIMIT_EXCEEDED":
        return "per 24 hrs" in refusal.message
    return refusal.error_code == "REQUEST_LIMIT_EXCEEDED"
