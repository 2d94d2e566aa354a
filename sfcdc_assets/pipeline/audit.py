"""An audit of several entities within one budget of API requests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from sfcdc_assets import clock
from sfcdc_assets.lake.audits import Audit, note_audit
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.channel_reader import POLL, Poller
from sfcdc_assets.pipeline.org import Org
from sfcdc_assets.pipeline.verify import VerifyReport, verify_entity
from sfcdc_assets.salesforce.view_all import ViewAllMissing


def audit(warehouse: Warehouse, org: Org, channels: Mapping[str, str], budget: int | None = None) -> list[VerifyReport]:
    """Verify each entity (entity -> channel). What one entity does not need of its share is left to those after it. One
    that the user is not shown whole is not read; its report says so."""
    reports: list[VerifyReport] = []
    left = budget
    with Poller(warehouse, org, math.inf, POLL) as lander:
        for number, (entity, channel) in enumerate(channels.items()):
            share = None if left is None else max(0, left) // (len(channels) - number)
            try:
                org.view_all.check(entity, "an audit")
            except ViewAllMissing as missing:
                reports.append(VerifyReport(entity, channel, 0, refused=str(missing)))
                continue
            began = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
            reports.append(verify_entity(warehouse, org, lander, entity, channel, share))
            note_audit(warehouse, _audit_of(reports[-1], began))
            left = None if left is None else left - reports[-1].calls
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
