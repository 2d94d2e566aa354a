"""A way to log in whose host gives no answers is tried after pauses that double.

Everything that has no valid token asks for one: a stream, the look at the channel's members, each request of a run.
Each try is several requests to the host of the login, which the whole organization logs in at.
"""

from __future__ import annotations

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.salesforce.errors import OrgUnavailable, OrgUnreachable, UnexpectedAnswer
from sfcdc_assets.salesforce.login import Grant, Login
from sfcdc_assets.salesforce.transport import Transport

FIRST_SECONDS, LONGEST_SECONDS = 5.0, 600.0


class PausedLogins:
    """A `Grant` that goes on saying what its last try failed with until a pause is over. For one thread at a time."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._failures, self._until = 0, 0.0
        self._error: Exception | None = None

    @property
    def name(self) -> str:
        """As people call it, for errors."""
        return self._grant.name

    @property
    def renewable(self) -> bool:
        """False for a token that was handed over."""
        return self._grant.renewable

    def login(self, transport: Transport) -> Login:
        """Get a fresh token. Raises what `Grant.login` raises; what a host that gave no answer was left with, without
        asking it, until 5 s have passed, then 10, 20 and so on up to ten minutes."""
        monotonic = clock.current().monotonic
        if self._error is not None and monotonic() < self._until:
            raise self._error.with_traceback(None)
        try:
            found = self._grant.login(transport)
        except (OrgUnavailable, OrgUnreachable, UnexpectedAnswer) as error:
            self._failures += 1
            self._until = monotonic() + doubled(FIRST_SECONDS, LONGEST_SECONDS, self._failures)
            self._error = error
            raise
        self._failures, self._error = 0, None
        return found
