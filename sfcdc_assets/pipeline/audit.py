"""An audit of several entities within one budget of API requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sfcdc_assets import clock
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.compare_again import compare_again
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.verify import Lands, VerifyReport, verify_entity

ROUNDS = 5
"""The most times that what changed while being compared is compared again."""


def audit(
    warehouse: Warehouse,
    org: Org,
    channels: Mapping[str, str],
    budget: int | None = None,
    *,
    lander: Lands,
    visibility_seconds: float,
    bring_up_to_date: Callable[[], object] = lambda: None,
    rounds: int = ROUNDS,
) -> list[VerifyReport]:
    """Verify each entity (entity -> channel). What one entity does not need of its share is left to those after it.

    What changed meanwhile, or is in doubt, is compared again in at most `rounds` rounds, as long as there is budget:
    each brings the tables up to date first, and waits for REST to show what the stream has brought.
    """
    reports: list[VerifyReport] = []
    left = budget
    for number, (entity, channel) in enumerate(channels.items()):
        share = None if left is None else max(0, left) // (len(channels) - number)
        report = verify_entity(warehouse, org, lander, entity, channel, share, visibility_seconds=visibility_seconds)
        reports.append(report)
        left = None if left is None else left - report.calls
    for _ in range(rounds):
        waiting = [report for report in reports if report.left]
        if not waiting or (budget is not None and sum(report.calls for report in reports) >= budget):
            break
        before = sum(len(report.left) for report in waiting)
        clock.sleep(visibility_seconds)
        bring_up_to_date()
        for report in waiting:
            compare_again(warehouse, org, lander, report, visibility_seconds=visibility_seconds)
        if sum(len(report.left) for report in waiting) == before and not any(each.in_motion for each in waiting):
            break  # what is left is in doubt, and its pause is not over yet
    return reports
