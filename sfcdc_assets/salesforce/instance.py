"""On which instance of Salesforce an org lives.

An org that is moved keeps its organization id and its My Domain; only `Organization.InstanceName` changes:
https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/object_reference/sforce_api_objects_organization.htm
"""

from __future__ import annotations

from contextlib import nullcontext

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.runtime.errors import TransientError
from sfcdc_assets.salesforce.errors import ApiLimitReached, RequestRefused, SessionExpired, UnexpectedAnswer
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.salesforce.rest_deadline import UnansweredTime, unanswered_at_most, unanswered_time
from sfcdc_assets.salesforce.session import OrgSession

ASKED_EVERY_SECONDS = 600.0
"""A move takes Salesforce longer, and each question is a request of the day's allowance."""
UNREACHABLE_SECONDS, LONGEST_SECONDS = 60.0, 3_600.0
"""After which it is asked again when the org could not be reached or did not answer in good order; each time twice as
long, up to the longest."""

MOST_SECONDS = 10.0
"""How long an answer is waited for, in front of a stream that goes on without it."""


def instance_name(session: OrgSession) -> str | None:
    """`USA224`; None when the org does not show it to this user."""
    try:
        rows = list(query_rows(session, "SELECT InstanceName FROM Organization", tries=1))
    except (RequestRefused, ApiLimitReached):
        return None
    name = rows[0].get("InstanceName") if rows else None
    return str(name) if name else None


class InstanceName:
    """The name of a session's instance, asked at the first call and then at most every ten minutes.

    While REST gives no answer that can be used it is what it was last: a stream goes on without it, and it is asked
    again after pauses that grow.
    """

    def __init__(self, session: OrgSession) -> None:
        self._session = session
        self._ask_at = 0.0
        self._failures = 0
        self._name: str | None = None

    def __call__(self) -> str | None:
        """Return the name; None when the org does not say it."""
        if clock.current().monotonic() >= self._ask_at:
            self._ask()
        return self._name

    def asked_now(self) -> str | None:
        """Return the name that the org says just now, whenever it was asked before; None when it says none, or while it
        is not asked because it did not answer."""
        if self._failures == 0 or clock.current().monotonic() >= self._ask_at:
            self._ask()
        return self._name if self._failures == 0 else None

    def _ask(self) -> None:
        now = clock.current().monotonic()
        self._ask_at = now + ASKED_EVERY_SECONDS
        try:
            with nullcontext() if unanswered_time() else unanswered_at_most(UnansweredTime(MOST_SECONDS)):
                self._name = instance_name(self._session)
            self._failures = 0
        except (TransientError, UnexpectedAnswer, SessionExpired):
            self._failures += 1
            self._ask_at = now + doubled(UNREACHABLE_SECONDS, LONGEST_SECONDS, self._failures)
