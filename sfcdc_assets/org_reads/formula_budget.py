"""How many API requests the reading of formula fields may make now: a share of the org's day, and none of what copies
leave to others."""

from __future__ import annotations

from sfcdc_assets.lake.store.formula_notes import HOUR_MS, FormulaNotes
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings

LEAST_ALLOWANCE = 15_000
"""Requests in 24 hours of the smallest org with an API: what is taken where the org does not tell this user."""


class FormulaBudget:
    """Of one round. What is spent is counted in the notes, so that it counts for the next processes too."""

    def __init__(self, notes: FormulaNotes, org: OrgConnection, settings: Settings) -> None:
        self._notes, self._org = notes, org
        self._percent, self._reserve = settings.formula_percent, settings.snapshot_reserve_percent

    def spend(self, requests: int) -> None:
        """Count requests that were made."""
        self._notes.spend(requests, clock.now_ms())

    def left(self) -> int:
        """Return how many requests may be made. Asks the org for its allowance once an hour."""
        now_ms = clock.now_ms()
        if self._notes.allowance is None or not 0 <= now_ms - self._notes.allowance[2] < HOUR_MS:
            shown = self._org.api_allowance()
            known = (shown.maximum, shown.remaining) if shown else (LEAST_ALLOWANCE, LEAST_ALLOWANCE)
            self._notes.allowance = (*known, now_ms)
        maximum, remaining, _ = self._notes.allowance
        share = int(maximum * self._percent / 100) - self._notes.spent_in_a_day(now_ms)
        return max(0, min(share, remaining - int(maximum * self._reserve / 100)))
