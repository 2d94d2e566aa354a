"""An audit of several entities within one budget of API requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from sfcdc_assets.entities.refused_reads import refuse_now
from sfcdc_assets.lake.tables.audits import Audit, note_audit
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.landing.retry_pause import OF_EVERY_OBJECT
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.reconciliation.compare_ids import compare_ids
from sfcdc_assets.reconciliation.verify import Lands, VerifyReport, left_to_a_read_back, moving_since, verify_entity
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.progress import ComparisonsLeft, notify
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.view_all import ViewAllMissing
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.timeline.suspect import Reason

log = logging.getLogger(__name__)


def compare_again(run: OrgRunContext, lander: Lands, report: VerifyReport) -> None:
    """Compare again what the report has left, in one round; what can be compared now moves from `left` to `compared`.

    Raises the session's errors.
    """
    warehouse, org = run.warehouse, run.org
    started, calls, began_ms = time.monotonic(), org.session.calls, clock.now_ms()
    entity, channel, asked = report.entity, report.channel, sorted(report.left)
    table = CurrentState.open(warehouse, entity)
    if table is None or not asked:
        return
    position = table.applied(channel) or 0
    columns = columns_of_table(Schemas(warehouse), entity, table.schema, run.privacy)
    description = describe(org.session, entity)
    compared = [column.name for column in columns if column.name in description.field_names and column.name != "Id"]
    found = compare_ids(org.session, table, entity, asked, columns, description, position)
    lander.land(channel, entity=entity)
    moving = moving_since(run, table, entity, channel, began_ms)
    report.position = position
    certain = [each for each in found.differences if each.record_id not in moving]
    unseen = left_to_a_read_back(warehouse, report, certain)
    report.leave(moving & set(asked), found.suspected | unseen, found.unreadable)
    done = len(asked) - len(report.left)
    report.compared += done
    report.compared_again += done
    report.values_compared += done * len(compared)
    report.add([each for each in found.differences if each.record_id not in report.left])
    report.calls += org.session.calls - calls
    report.seconds += time.monotonic() - started


ROUNDS = 5
"""The most times that what changed while being compared is compared again."""


def audit(
    run: OrgRunContext,
    channels: Mapping[str, str],
    lander: Lands,
    budget: int | None = None,
    *,
    bring_up_to_date: Callable[[], object] = lambda: None,
    rounds: int = ROUNDS,
) -> list[VerifyReport]:
    """Verify each entity (entity -> channel). What one entity does not need of its share is left to those after it.

    What changed meanwhile, or is suspect, is compared again in at most `rounds` rounds, as long as there is budget:
    each brings the tables up to date first, and waits for REST to show what the stream has brought. An entity that the
    user is not shown whole is not read; its report says so, and it is read again when the permission is back.
    """
    reports: list[VerifyReport] = []
    left = budget
    began: dict[str, datetime] = {}
    for number, (entity, channel) in enumerate(channels.items()):
        share = None if left is None else max(0, left) // (len(channels) - number)
        try:
            run.org.view_all.check(entity, "an audit")
        except ViewAllMissing as missing:
            refuse_now(run.warehouse, entity, Reason.VIEW_ALL_MISSING, channel, str(missing))
            reports.append(VerifyReport(entity, channel, 0, refused=str(missing)))
            continue
        began[entity] = clock.now()
        report = _verified(run, lander, entity, channel, share, is_alone=len(channels) == 1)
        reports.append(report)
        left = None if left is None else left - report.calls
    for _ in range(rounds):
        waiting = [report for report in reports if report.left]
        if not waiting or (budget is not None and sum(report.calls for report in reports) >= budget):
            break
        before = sum(len(report.left) for report in waiting)
        notify(ComparisonsLeft(before))
        clock.sleep(run.settings.visibility_seconds)
        bring_up_to_date()
        for report in waiting:
            error = outcome_of(compare_again, run, lander, report)
            if isinstance(error, Exception):
                _refuse(report, error)
        if sum(len(report.left) for report in waiting) == before and not any(
            each.changed_meanwhile for each in waiting
        ):
            break  # what is left is suspect, and its pause is not over yet
    for report in reports:
        if report.refused is None:
            note_audit(run.warehouse, _audit_of(report, began[report.entity]))
    return reports


def _verified(
    run: OrgRunContext, lander: Lands, entity: str, channel: str, budget: int | None, *, is_alone: bool
) -> VerifyReport:
    """Return the report on one entity. What it fails with keeps no other from being compared, unless each would meet
    it."""
    report = outcome_of(verify_entity, run, lander, entity, channel, budget)
    if isinstance(report, VerifyReport):
        return report
    if is_alone:
        raise report
    return _refuse(VerifyReport(entity, channel, 0), report)


def _refuse(report: VerifyReport, error: Exception) -> VerifyReport:
    """Note in the report why it says nothing. Raises what concerns all entities."""
    if isinstance(error, OF_EVERY_OBJECT):
        raise error
    log.warning("%s could not be compared", report.entity, exc_info=error)
    report.refused, report.left = f"{report.entity} could not be compared: {error}", frozenset()
    return report


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
