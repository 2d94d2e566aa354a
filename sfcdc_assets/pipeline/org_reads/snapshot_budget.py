"""Whether the org's allowances of the day have room for another copy of an object.

Everybody who works with the org shares them, and most of the others serve people. So copies leave a part of each
untouched (SFCDC_SNAPSHOT_RESERVE_PERCENT), whoever uses the rest: they pause, and go on when the org has taken the
requests of the day before off its count.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from sfcdc_assets import clock
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.errors import ApiLimitReached, OrgUnavailable, OrgUnreachable
from sfcdc_assets.salesforce.limits import Limit

REQUESTS, JOBS = "DailyApiRequests", "DailyBulkV2QueryJobs"
ALLOWANCES: Mapping[str, str] = MappingProxyType({REQUESTS: "API requests", JOBS: "Bulk query jobs"})
ASKED_EVERY_SECONDS = 600.0
"""How long an answer counts, our own requests since then taken off."""
UNREACHABLE_SECONDS = 60.0
"""After which an org that did not answer is asked again."""


class SnapshotBudget:
    """What an org allows now; threads may share it. `percent`: what is left untouched. Costs a request each time that
    the org is asked."""

    def __init__(self, org: OrgConnection, percent: float) -> None:
        self._org = org
        self._percent = percent
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._limits: Mapping[str, Limit] = {}
        self._trouble: str | None = None
        self._calls = 0
        self._begun: Counter[str] = Counter()

    def begins_a_job(self) -> None:
        """A Bulk query job is begun."""
        with self._lock:
            self._begun[JOBS] += 1

    def ran_out(self, error: ApiLimitReached) -> None:
        """The org refused a copy's request, whatever it said of its allowances before."""
        with self._lock:
            self._has_no_room(error)

    def why_not(self, *, is_sure: bool = True) -> str | None:
        """Why no copy is to be begun or gone on with; None when there is room, or the org does not tell this user what
        is left. Without `is_sure` the caller copies nothing itself, so that only the org knows what others have taken
        since: that there is room is asked again."""
        with self._lock:
            found = self._of_limits()
            is_old = clock.current().monotonic() - self._asked_at >= ASKED_EVERY_SECONDS
            if is_old or (found is None and not is_sure):
                self._ask()
                found = self._of_limits()
            return found

    def _ask(self) -> None:
        """An org that takes no more requests, or is away, has no room either, and is asked again in a minute: whoever
        asks has a stream to land and changes to apply."""
        self._asked_at = clock.current().monotonic()
        try:
            self._limits, self._trouble = self._org.allowances(), None
        except (ApiLimitReached, OrgUnavailable, OrgUnreachable) as error:
            self._has_no_room(error)
        self._calls = self._org.session.calls
        self._begun.clear()

    def _has_no_room(self, error: SfcdcError) -> None:
        self._limits, self._trouble = {}, str(error).rstrip(".")
        self._asked_at = clock.current().monotonic() + UNREACHABLE_SECONDS - ASKED_EVERY_SECONDS

    def _of_limits(self) -> str | None:
        if self._trouble is not None:
            return self._trouble
        spent = {REQUESTS: self._org.session.calls - self._calls, JOBS: self._begun[JOBS]}
        for name, words in ALLOWANCES.items():
            limit = self._limits.get(name)
            if limit is not None and limit.remaining - spent[name] <= limit.maximum * self._percent / 100:
                return (
                    f"the org has {limit.remaining - spent[name]:,} of {limit.maximum:,} {words} left today, and "
                    f"SFCDC_SNAPSHOT_RESERVE_PERCENT leaves {self._percent:g} % of them to others"
                )
        return None
