"""Which parts of an entity an audit reads, within a budget of API requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB
from sfcdc_assets.snapshot.soql import IdWindow


@dataclass(frozen=True)
class AuditPlan:
    """The windows to read, those left out for want of budget, and what the reading should cost in requests."""

    windows: tuple[IdWindow, ...]
    skipped: tuple[IdWindow, ...]
    calls: int


def plan_windows(
    boundaries: Sequence[str], rows: Sequence[int], rows_per_page: int, budget: int | None, turn: int
) -> AuditPlan:
    """All of the entity in one reading when the budget allows it, else as many windows as it does.

    `boundaries[n]` is the first Id of the nth part of the table, which has `rows[n]` rows. Which windows come first
    goes round with `turn` (a day number), so that successive audits cover everything.
    """
    whole = CALLS_PER_JOB + -(-max(1, sum(rows)) // rows_per_page)
    if budget is None or whole <= budget:
        return AuditPlan((IdWindow(),), (), whole)
    lowers: list[str | None] = [None, *boundaries[1:]]
    uppers: list[str | None] = [*boundaries[1:], None]
    windows = [IdWindow(lower, upper) for lower, upper in zip(lowers, uppers, strict=True)]
    chosen: list[IdWindow] = []
    left = budget
    for step in range(len(windows)):
        number = (turn + step) % len(windows)
        cost = CALLS_PER_JOB + -(-max(1, rows[number]) // rows_per_page)
        if cost > left:
            break
        left -= cost
        chosen.append(windows[number])
    return AuditPlan(tuple(chosen), tuple(window for window in windows if window not in chosen), budget - left)
