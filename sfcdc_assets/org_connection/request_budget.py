"""How many API requests something may make now: its share of the org's day, and none of what is left to others."""

from __future__ import annotations

from sfcdc_assets.lake.store.request_ledger import DAY_HOURS, HOUR_MS, RequestLedger
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.setting_values import as_set_here

LEAST_ALLOWANCE = 15_000
"""Requests in 24 hours of the smallest org with an API (docs/salesforce-streams.md, "Limits"): what is taken where the
org does not say it to this user."""


class RequestBudget:
    """Of one purpose. What is spent is counted in the ledger, so that it counts for the next processes too."""

    def __init__(
        self, ledger: RequestLedger, org: OrgConnection, purpose: str, percent: float, reserve_percent: float
    ) -> None:
        """`percent`: of the org's daily requests; `reserve_percent` of them are left whoever has used the others."""
        self._ledger, self._org, self._purpose = ledger, org, purpose
        self._percent, self._reserve = percent, reserve_percent

    def spend(self, requests: int) -> None:
        """Count requests that were made."""
        self._ledger.spend(self._purpose, requests, clock.now_ms())

    def left(self) -> int:
        """Return how many requests may be made. Asks the org for its allowance once an hour."""
        now_ms = clock.now_ms()
        maximum, remaining = self._allowance(now_ms)
        share = self._share(maximum) - self._ledger.spent_in_a_day(self._purpose, now_ms)
        return max(0, min(share, remaining - int(maximum * self._reserve / 100)))

    def left_this_hour(self) -> int:
        """Return how many requests may be made of `left`, for what goes on all day: half of the share as they are
        wanted, and beyond that what an hour has of it, so that no hour is without any."""
        left, now_ms = self.left(), clock.now_ms()
        share = self._share(self._allowance(now_ms)[0])
        at_will = share // 2 - self._ledger.spent_in_a_day(self._purpose, now_ms)
        of_an_hour = share // (2 * DAY_HOURS) - self._ledger.spent_in_an_hour(self._purpose, now_ms)
        return max(0, min(left, max(at_will, of_an_hour)))

    def why_not(self, setting: str) -> str:
        """Say what there was no room in. `setting`: the one that says how large the share is."""
        maximum, remaining = self._allowance(clock.now_ms())
        spent = self._ledger.spent_in_a_day(self._purpose, clock.now_ms())
        if remaining <= int(maximum * self._reserve / 100):
            return as_set_here(
                f"the org has {remaining:,} of {maximum:,} API requests left today, and "
                f"SFCDC_SNAPSHOT_RESERVE_PERCENT leaves {self._reserve:g} % of them to others"
            )
        return as_set_here(
            f"{spent:,} API requests were made for {self._purpose} in 24 hours, and {setting} allows them "
            f"{self._percent:g} % of the org's {maximum:,}"
        )

    def _share(self, maximum: int) -> int:
        return int(maximum * self._percent / 100)

    def _allowance(self, now_ms: int) -> tuple[int, int]:
        """Return what the org allows in a day, and what of it is left; what was asked within the hour counts."""
        known = self._ledger.allowance
        if known is None or not 0 <= now_ms - known[2] < HOUR_MS:
            shown = self._org.api_allowance()
            asked = (shown.maximum, shown.remaining) if shown else (LEAST_ALLOWANCE, LEAST_ALLOWANCE)
            known = self._ledger.allowance = (*asked, now_ms)
        return known[0], known[1]
