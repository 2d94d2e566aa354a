"""What polls and counts of records may take of the org's API requests now, and which objects wait for more."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.lake.store.request_ledger import POLLS, RequestLedger, note_ledger, read_ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.request_budget import RequestBudget
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError, enumerated
from sfcdc_assets.salesforce.composite_query import MOST_QUERIES
from sfcdc_assets.settings.setting_values import as_set_here

SETTING = "SFCDC_POLL_PERCENT"
BESIDE = 1
"""Requests of a reading beside those for its objects: which transactions are open."""


class PollsWait(SfcdcError):
    """Polled objects were due, and there was no room for the requests."""

    def __init__(self, objects: Sequence[str], why: str) -> None:
        self.objects = tuple(objects)
        super().__init__(
            as_set_here(
                f"Not all is polled: {enumerated(self.objects, 5)} {'waits' if len(self.objects) == 1 else 'wait'}, "
                f"because {why.rstrip('.')}. Run it again later, have the allowance raised, raise {SETTING} or "
                "SFCDC_POLL_SECONDS."
            )
        )


class PollBudget:
    """Of one reader of polled objects."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection) -> None:
        self._warehouse, self._org = warehouse, org
        self._ledger = RequestLedger()
        self._due: tuple[str, ...] = ()

    def begin(self, due: Sequence[str]) -> tuple[str, ...]:
        """Return those of the objects that are due that may be asked now, those that have waited longest; the others
        are noted to wait."""
        self._ledger, self._due = read_ledger(self._warehouse), tuple(due)
        if not due:
            return ()
        budget = self._budget
        left = budget.left_this_hour() - BESIDE
        asked = self._due[: max(0, left) * MOST_QUERIES]
        if len(asked) < len(due):
            self._ledger.postpone(POLLS, budget.why_not(SETTING), self._due[len(asked) :], clock.now_ms())
        else:
            self._ledger.postponed.pop(POLLS, None)
        return asked

    def has_room(self, requests: int) -> bool:
        """Return whether a reading that has made so many requests may make another one."""
        return self._budget.left_this_hour() > requests

    def postpone(self, entities: Sequence[str]) -> None:
        """Note that these were not asked, or have more than there was room for."""
        if entities:
            known = self._ledger.postponed.get(POLLS)
            every = dict.fromkeys((*(known.objects if known else ()), *entities))
            self._ledger.postpone(POLLS, self._budget.why_not(SETTING), tuple(every), clock.now_ms())

    def for_counts(self, most: int) -> int:
        """Return how many requests counts of records may take, `most` of them; none while polls wait."""
        return 0 if POLLS in self._ledger.postponed else min(most, self._budget.left_this_hour())

    def ran_out(self, error: SfcdcError) -> None:
        """Note that the org takes no more requests: whoever was due waits."""
        if self._due:
            self._ledger.postpone(POLLS, str(error), self._due, clock.now_ms())

    def end(self, requests: int) -> None:
        """Count the requests of the reading, and write the ledger where something has changed."""
        if requests:
            self._budget.spend(requests)
        if requests or self._due:
            note_ledger(self._warehouse, self._ledger, POLLS)
        self._due = ()

    @property
    def _budget(self) -> RequestBudget:
        settings = self._org.poll
        return RequestBudget(self._ledger, self._org, POLLS, settings.percent, settings.reserve_percent)
