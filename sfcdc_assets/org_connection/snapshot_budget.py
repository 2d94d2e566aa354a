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

from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.doubling import doubled
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import NO_ANSWER, ApiLimitReached
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.settings.setting_values import as_set_here

REQUESTS, JOBS = "DailyApiRequests", "DailyBulkV2QueryJobs"
ALLOWANCES: Mapping[str, str] = MappingProxyType({REQUESTS: "API requests", JOBS: "Bulk query jobs"})
PRICE_OF_A_COPY: Mapping[str, int] = MappingProxyType({REQUESTS: 6, JOBS: 1})
"""What the smallest one takes: describe, the schema, the job, its state, a page, the count. What would be left counts,
so that a small reserve is not passed over by what is next."""
PRICE_OF_A_PAGE: Mapping[str, int] = MappingProxyType({REQUESTS: 1})
ASKED_EVERY_SECONDS = 600.0
"""How long an answer counts, our own requests since then taken off."""
UNREACHABLE_SECONDS = 60.0
"""After which an org that did not answer is asked again; each time twice as long, up to `ASKED_EVERY_SECONDS`."""


class CopiesWait(SfcdcError):
    """Entities were to be copied, and the org's allowances had no room for it."""

    def __init__(self, waiting: Mapping[str, str]) -> None:
        self.waiting = waiting
        reasons = "; ".join(dict.fromkeys(waiting.values()))
        super().__init__(
            f"Not all is copied: {', '.join(waiting)} {'waits' if len(waiting) == 1 else 'wait'} for a snapshot, "
            f"because {reasons}. Run it again later, have the allowance raised, or lower "
            "SFCDC_SNAPSHOT_RESERVE_PERCENT."
        )


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
        self._failures = 0
        """In a row."""
        self._calls = 0
        self._begun: Counter[str] = Counter()

    def begins_a_job(self) -> None:
        """Note that a Bulk query job is begun, whether or not there is room: a person asked for it."""
        with self._lock:
            self._begun[JOBS] += 1

    def begin(self) -> str | None:
        """Take a job if there is room for it, and say why not otherwise. Several threads that begin at once take no
        more than there is."""
        with self._lock:
            found = self._found(is_sure=True, price=PRICE_OF_A_COPY)
            if found is None:
                self._begun[JOBS] += 1
            return found

    def ran_out(self, error: ApiLimitReached) -> None:
        """Note that the org refused a copy's request, whatever it said of its allowances before."""
        with self._lock:
            self._has_no_room(error)

    def why_not(self, *, is_sure: bool = True) -> str | None:
        """Return why no copy is to be begun; None when there is room, or the org does not tell this user what is left.
        Without `is_sure` the caller copies nothing itself, so that only the org knows what others have taken since:
        that there is room is asked again."""
        with self._lock:
            return self._found(is_sure=is_sure, price=PRICE_OF_A_COPY)

    def why_not_go_on(self) -> str | None:
        """Return why a copy that was begun is to pause. It has its job, and takes requests only."""
        with self._lock:
            return self._found(is_sure=True, price=PRICE_OF_A_PAGE)

    def _found(self, *, is_sure: bool, price: Mapping[str, int]) -> str | None:
        found = self._of_limits(price)
        is_old = clock.current().monotonic() - self._asked_at >= ASKED_EVERY_SECONDS
        if is_old or (found is None and not is_sure):
            self._ask()
            found = self._of_limits(price)
        return found

    def _ask(self) -> None:
        """Ask the org. One that gives no answer (`NO_ANSWER`) has no room either, and is asked again in a minute, and
        then after pauses that grow: whoever asks has a stream to land and changes to apply."""
        self._asked_at = clock.current().monotonic()
        try:
            self._limits, self._trouble, self._failures = self._org.allowances(), None, 0
        except NO_ANSWER as error:
            self._failures += 1
            self._has_no_room(error)
        self._calls = self._org.session.calls
        self._begun.clear()

    def _has_no_room(self, error: SfcdcError) -> None:
        self._limits, self._trouble = {}, str(error).rstrip(".")
        pause = doubled(UNREACHABLE_SECONDS, ASKED_EVERY_SECONDS, max(1, self._failures))
        self._asked_at = clock.current().monotonic() + pause - ASKED_EVERY_SECONDS

    def _of_limits(self, price: Mapping[str, int]) -> str | None:
        if self._trouble is not None:
            return self._trouble
        spent = {REQUESTS: self._org.session.calls - self._calls, JOBS: self._begun[JOBS]}
        for name, next_ in price.items():
            limit, words = self._limits.get(name), ALLOWANCES[name]
            if limit is not None and limit.remaining - spent[name] - next_ < limit.maximum * self._percent / 100:
                return as_set_here(
                    f"the org has {limit.remaining - spent[name]:,} of {limit.maximum:,} {words} left today, and "
                    f"SFCDC_SNAPSHOT_RESERVE_PERCENT leaves {self._percent:g} % of them to others"
                )
        return None
