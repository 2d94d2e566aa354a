"""How many requests the rolling audit may spend: of the org's allowance in 24 hours, and now."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfcdc_assets.lake.tables.rolling_audits import Allowance, RollingAudits
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.request_budget import LEAST_ALLOWANCE
from sfcdc_assets.reconciliation.audit_turns import DAY_MS
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.settings.setting_values import as_set_here

HOUR_MS = 3_600_000
UNTOUCHED = 0.2
"""The share of the allowance that is left to others: with less remaining nothing is audited."""
AT_ONCE = 2.0
"""How many hours' share may be spent within one hour."""
LEAST_AT_ONCE = 5
"""What may be spent within an hour however small the budget is: one look, and the question for the allowance."""


@dataclass(frozen=True)
class AuditBudget:
    """Requests a day, those of the last 24 hours, what may be spent now, and why it is nothing."""

    a_day: int
    spent: int
    now: int
    why_not: str | None = None


def audit_budget(audits: RollingAudits, org: OrgConnection, percent: float, now_ms: int) -> AuditBudget:
    """Asks the org for its allowance once an hour, which is one request of the budget and not made beyond it."""
    if not percent:
        return AuditBudget(0, 0, 0, as_set_here("SFCDC_AUDIT_PERCENT is 0"))
    allowance = audits.allowance() or Allowance(LEAST_ALLOWANCE, LEAST_ALLOWANCE, 0)
    budget = _of(audits, allowance, percent, now_ms)
    is_old = budget.now > 1 and now_ms - allowance.asked_at_ms >= HOUR_MS
    if is_old or not allowance.asked_at_ms:
        shown = org.api_allowance()
        asked = (shown.maximum, shown.remaining) if shown else (LEAST_ALLOWANCE, LEAST_ALLOWANCE)
        allowance = Allowance(*asked, now_ms)
        audits.count_requests(1, now_ms, allowance)
        audits.forget_old(now_ms)
        budget = _of(audits, allowance, percent, now_ms)
    left = f"the org has {allowance.remaining:,} of {allowance.maximum:,} API requests left"
    return replace(budget, now=0, why_not=left) if allowance.remaining < allowance.maximum * UNTOUCHED else budget


def _of(audits: RollingAudits, allowance: Allowance, percent: float, now_ms: int) -> AuditBudget:
    a_day = int(allowance.maximum * percent / 100)
    spent = audits.requests_since(now_ms - DAY_MS)
    within_the_hour = max(LEAST_AT_ONCE, int(a_day / 24 * AT_ONCE)) - audits.requests_since(now_ms - HOUR_MS)
    now = max(0, min(a_day - spent, within_the_hour))
    return AuditBudget(a_day, spent, now, None if now else f"{spent} of {counted(a_day, 'request')} a day spent")
