"""When a channel that failed is tried again: by itself, after pauses that double for as long as it fails the same way.

Each try has a price that others of the org pay too: a login, a Subscribe call, an event that is delivered twice. What a
person has to mend (credentials, an allowance, the setup) is asked for less often than what may pass by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.lake.errors import StoreRefused, StoreUnavailable, TableNotWritten, WarehouseNotWritable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.durable_pause import KeptPause
from sfcdc_assets.org_connection.same_organization import WrongOrganization
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import duration_text
from sfcdc_assets.salesforce.errors import (
    ApiLimitReached,
    LoginRefused,
    OrganizationReplaced,
    OrgUnreachable,
    SessionExpired,
)
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.errors import (
    AuthenticationRefused,
    DeliveryLimitReached,
    TransportError,
    TransportUnavailable,
)


@dataclass(frozen=True)
class _Pauses:
    """For failures of these classes."""

    of: tuple[type[BaseException], ...]
    backoff: Backoff


def _doubling(first: float, longest: float) -> Backoff:
    return Backoff(first=first, longest=longest, random=lambda: 1.0)


OF_THE_LOGIN = (LoginRefused, WrongOrganization, OrganizationReplaced)
"""What every channel that logs in with the same settings would meet.

Salesforce locks a user out after ten wrong passwords, for a quarter of an hour by default (Salesforce Help, "Set
Password Policies")."""
_OF_THE_TOKEN = (AuthenticationRefused, SessionExpired)
OF_EVERY_OBJECT = (
    *OF_THE_LOGIN,
    SessionExpired,
    ApiLimitReached,
    OrgUnreachable,
    WarehouseNotWritable,
    StoreRefused,
    StoreUnavailable,
    TableNotWritten,
)
"""What is raised where objects are worked on one after another: each would meet it. All else stays with its object."""
_LOGIN, _TOKEN = _doubling(300.0, 3_600.0), _doubling(30.0, 3_600.0)
_KINDS = (
    # The next login says what a person can do about it; that one is refused, and pauses.
    _Pauses((OrganizationReplaced,), _doubling(0.0, 0.0)),
    _Pauses(OF_THE_LOGIN, _LOGIN),
    _Pauses(_OF_THE_TOKEN, _TOKEN),
    _Pauses((DeliveryLimitReached, ApiLimitReached), _doubling(300.0, 3_600.0)),
    # A call that broke is begun again by its subscription, after short pauses: this is what comes after those.
    _Pauses((TransportUnavailable,), _doubling(1.0, 600.0)),
    _Pauses((TransportError,), _doubling(10.0, 600.0)),
    _Pauses((BaseException,), _doubling(5.0, 300.0)),
)
"""The first that fits counts; the last one is for what this side fails at: a full disk, a store that refuses, a damaged
table. Seconds."""


class RetryPause:
    """The pause of one channel; another channel has another one. Not for several threads at once. `kept`: what of it
    other processes are to know."""

    def __init__(self, kept: KeptPause | None = None) -> None:
        self._kept = kept
        self._is_first_try = True
        self._kind: _Pauses | None = None
        self._failures = 0
        self._until = 0.0
        self._error: Exception | None = None

    def check(self) -> None:
        """Raise the last failure again while its pause goes on; its message says how long that is. Before the first
        try of this process, raise `RefusedBefore` while the pause of another one goes on."""
        if self._error is not None and self.left > 0:
            raise self.said(self._error)
        if self._kept is not None and self._is_first_try:
            self._kept.check()

    @property
    def left(self) -> float:
        """Seconds until the next try; 0 where nothing failed."""
        return max(0.0, self._until - clock.current().monotonic()) if self._error is not None else 0.0

    def failed(self, error: Exception) -> None:
        """Begin the next pause, which is longer if the failure is of the same kind as the one before."""
        kind = next(each for each in _KINDS if isinstance(error, each.of))
        self._failures = self._failures + 1 if kind is self._kind else 1
        self._kind, self._error = kind, error
        self._until = clock.current().monotonic() + kind.backoff.pause(self._failures)
        self._is_first_try = False
        if self._kept is not None:
            self._kept.failed(error)

    def worked(self) -> None:
        """Nothing is left of the failures before."""
        self._kind, self._failures, self._error = None, 0, None
        self._is_first_try = False
        if self._kept is not None:
            self._kept.worked()

    def said(self, error: Exception) -> Exception:
        """Return the same error, of the same class and with the same facts, whose message has the next try in it."""
        if not isinstance(error, SfcdcError):
            return error.with_traceback(None)
        again = type(error).__new__(type(error))
        again.__dict__.update(error.__dict__)
        again.args = (f"{str(error).rstrip('.')}. The next try is in {duration_text(self.left)}.",)
        return again


def kept_pauses(warehouse: Warehouse, settings: Settings, channel: str) -> tuple[RetryPause, RetryPause]:
    """Return those of the login and of a channel's stream which other processes with these settings know of."""
    login = KeptPause(warehouse, settings, "the login", (LoginRefused,), _LOGIN)
    stream = KeptPause(warehouse, settings, f"reading {channel}", (*_OF_THE_TOKEN, DeliveryLimitReached), _TOKEN)
    return RetryPause(login), RetryPause(stream)
