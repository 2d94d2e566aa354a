"""What the org still allows today, against what a first start would take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sfcdc_assets.doctor.finding import Finding, failed, ok, warning
from sfcdc_assets.pipeline.first_start import FirstStart
from sfcdc_assets.pipeline.landing.channel_reader import LEAST_ALLOWANCE
from sfcdc_assets.salesforce.limits import Limit

REQUESTS, JOBS, DELIVERIES = "DailyApiRequests", "DailyBulkV2QueryJobs", "DailyDeliveredPlatformEvents"
ALLOWANCES = "allowances"
"""The check where the org does not show them; each has the name that the org gives it."""
_WAIT = "Wait: allowances are counted over 24 hours. Or have it raised, or stop other clients that use it up."


def allowances(limits: Mapping[str, Limit], start: FirstStart) -> Iterator[Finding]:
    """API requests, Bulk jobs, delivered events. `start`: what the entities that were never copied will take."""
    needs = {REQUESTS: start.requests, JOBS: start.jobs, DELIVERIES: start.events}
    for name, need in needs.items():
        limit = limits.get(name)
        if limit is not None:
            yield allowance(name, limit, need)


def allowance(name: str, limit: Limit, need: int) -> Finding:
    """One of them. Too few deliveries stop no first start: it begins with what happens from then on."""
    takes = f"; the first start takes {'at least' if name == DELIVERIES else 'about'} {need:,}" if need else ""
    found = f"{limit.remaining:,} of {limit.maximum:,} are left{takes}"
    if limit.remaining <= 0 or (need > limit.remaining and name != DELIVERIES):
        return failed(name, f"{found}.", _WAIT)
    if need > limit.remaining or limit.remaining < limit.maximum * LEAST_ALLOWANCE:
        fix = f"{_WAIT} A first start skips the retained events while fewer than {LEAST_ALLOWANCE:.0%} are left."
        return warning(name, f"{found}.", fix if name == DELIVERIES else _WAIT)
    return ok(name, found)
