"""Which windows of Ids of an entity an audit reads for a budget of requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.tables.current_state import CurrentState, id_ranges
from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB
from sfcdc_assets.snapshot.pages import rows_per_page
from sfcdc_assets.snapshot.soql import IdWindow

DAY_SECONDS = 86_400


@dataclass(frozen=True)
class AuditPlan:
    """The windows to read, those left out for want of budget, and what the reading should cost in requests."""

    windows: tuple[IdWindow, ...]
    skipped: tuple[IdWindow, ...]
    calls: int


def plan_of(table: CurrentState, columns: Sequence[Column], budget: int | None) -> AuditPlan:
    """Return the windows of a table's key ranges for this budget (API requests; None: no bound), by today's turn."""
    files = list(table.files().values())
    ranges = sorted((part.first, file.rows) for part, file in zip(id_ranges(files), files, strict=True)) or [("", 0)]
    boundaries, rows = [first for first, _ in ranges], [count for _, count in ranges]
    per_page = rows_per_page(columns)
    return plan_windows(boundaries, rows, per_page, budget, turn=int(time.time() // DAY_SECONDS))


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
