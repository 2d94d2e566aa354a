"""The rolling audit of a run of `sync`, and what the job makes of it: a check only reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.apply.catch_up import Applied
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks.drift import auditable
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.reconciliation.rolling_audit import RollingReport, look
from sfcdc_assets.reconciliation.verify import open_drift_suspects
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.record_id import is_salesforce_id


@dataclass(frozen=True)
class RunAudit:
    """What was found, of which entities."""

    report: RollingReport
    entities: Mapping[str, EntityState]


def audit_some(
    run: OrgRunContext,
    known: Mapping[str, str],
    landed_until_ms: Mapping[str, int],
    applied: Sequence[Applied],
    most_looks: int = 1,
) -> RunAudit:
    """Compare what the run has changed, and what was not looked at for longest, within SFCDC_AUDIT_PERCENT."""
    states = {state.entity: state for state in auditable(entity_states(run.warehouse, known))}
    raw_events = RawEvents.open(run.warehouse)
    changed = {
        each.report.entity: {
            record_id
            for record_id in raw_events.record_ids_after(
                each.report.entity, each.report.channel, each.report.from_position
            )
            if is_salesforce_id(record_id)
        }
        for each in applied
        if each.report.events
    }
    built = {entity: state.channel for entity, state in states.items()}
    return RunAudit(look(run, built, changed, landed_until_ms, most_looks), states)


def hand_on(warehouse: Warehouse, audit: RunAudit) -> None:
    """Note what differs in the reconciliation ledger, for the next read-back."""
    for entity in {each.entity for each in audit.report.differences}:
        state = audit.entities[entity]
        differences = [each for each in audit.report.differences if each.entity == entity]
        report = VerifyReport(entity, state.channel, state.applied or 0, differences=differences)
        open_drift_suspects(warehouse, report, clock.now_ms())
