"""An audit of several entities within one budget of API requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sfcdc_assets import clock
from sfcdc_assets.lake.audits import Audit, note_audit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.observation import ComparisonsLeft, notify
from sfcdc_assets.pipeline.audits.compare_again import compare_again
from sfcdc_assets.pipeline.audits.verify import Lands, VerifyReport, verify_entity
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.view_all import ViewAllMissing

ROUNDS = 5
"""The most times that what changed while being compared is compared again."""


def audit(
    warehouse: Warehouse,
    org: OrgConnection,
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
    each brings the tables up to date first, and waits for REST to show what the stream has brought. An entity that the
    user is not shown whole is not read; its report says so.
    """
    reports: list[VerifyReport] = []
    left = budget
    began: dict[str, datetime] = {}
    for number, (entity, channel) in enumerate(channels.items()):
        share = None if left is None else max(0, left) // (len(channels) - number)
        try:
            org.view_all.check(entity, "an audit")
        except ViewAllMissing as missing:
            reports.append(VerifyReport(entity, channel, 0, refused=str(missing)))
            continue
        began[entity] = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        report = verify_entity(warehouse, org, lander, entity, channel, share, visibility_seconds=visibility_seconds)
        reports.append(report)
        left = None if left is None else left - report.calls
    for _ in range(rounds):
        waiting = [report for report in reports if report.left]
        if not waiting or (budget is not None and sum(report.calls for report in reports) >= budget):
            break
        before = sum(len(report.left) for report in waiting)
        notify(ComparisonsLeft(before))
        clock.sleep(visibility_seconds)
        bring_up_to_date()
        for report in waiting:
            compare_again(warehouse, org, lander, report, visibility_seconds=visibility_seconds)
        if sum(len(report.left) for report in waiting) == before and not any(
            each.changed_meanwhile for each in waiting
        ):
            break  # what is left is in doubt, and its pause is not over yet
    for report in reports:
        if report.refused is None:
            note_audit(warehouse, _audit_of(report, began[report.entity]))
    return reports


def _audit_of(report: VerifyReport, began: datetime) -> Audit:
    return Audit(
        report.entity,
        report.channel,
        report.position,
        began,
        report.in_org,
        report.in_table,
        len(report.differences),
        report.windows,
        report.skipped,
    )
