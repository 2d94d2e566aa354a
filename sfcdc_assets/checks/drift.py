"""Whether the tables equal the org, as an asset check of `current_state`.

It reports and changes no table that it is about. What a job's run finds, the job hands on to the next read-back.
"""

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.lake.gap_reconciliation import LAYER, Ledger
from sfcdc_assets.lake.rolling_audits import RollingAudits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.audits.rolling import RollingReport, look
from sfcdc_assets.pipeline.audits.verify import VerifyReport
from sfcdc_assets.pipeline.entities import EntityState, entity_channels, entity_states
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.setting_values import as_set_here
from sfcdc_assets.side_by_side import all_side_by_side
from sfcdc_assets.state.doubt import Doubt

NAME = "equals_the_org"


@dg.asset_check(
    asset=CURRENT_STATE_KEY,
    name=NAME,
    description=as_set_here(
        "Compares records with the org, field by field, within SFCDC_AUDIT_PERCENT of the org's daily API "
        "requests: each run those that it changed and those that were not looked at for longest. Fails for what "
        "differs until it is read back; hard deletes, which raise no event, are found this way. The job `audit` "
        "compares all."
    ),
)
def equals_the_org(lake: LakeResource, org: OrgResource) -> dg.AssetCheckResult:
    """Passed when nothing is known to differ from the org."""
    warehouse, settings = lake.warehouse(), load_settings()
    with org.connect(warehouse) as connected:
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        states = auditable(entity_states(warehouse, known))
        built = {state.entity: state.channel for state in states}
        report = look(warehouse, connected, built, {}, {}, settings.audit_percent)
    return result_of_look(warehouse, report, list(known))


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """The check's result without asking the org: whether all that was found to differ is read back."""
    waiting = _drifted(warehouse, warehouse.entities(LAYER))
    looks = RollingAudits(warehouse).looks().values()
    newest = max((each.at_ms for each in looks), default=0)
    return dg.AssetCheckResult(
        passed=not waiting,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "compared_now": "nothing",
            **({"compared_last": dg.MetadataValue.timestamp(newest / 1000)} if newest else {}),
            "not_read_back_yet": waiting,
            "to_be_looked_at_again": sum(len(each.suspicions) for each in looks),
        },
    )


def auditable(states: Sequence[EntityState]) -> list[EntityState]:
    """Those whose tables have all that is complete of the stream: only these can be compared."""
    return [
        state
        for state in states
        if state.snapshot_applied
        and not state.lacks_snapshot
        and not state.pending_reads
        and not state.has_events_up_to(state.complete)
    ]


def result_of_look(warehouse: Warehouse, report: RollingReport, entities: Sequence[str]) -> dg.AssetCheckResult:
    """Passed when nothing differs for sure, and nothing that did still waits to be read back."""
    waiting = _drifted(warehouse, entities)
    found = [str(each) for each in report.differences]
    compared = ", ".join(f"{count} of {entity}" for entity, count in report.compared.items())
    return dg.AssetCheckResult(
        passed=not found and not waiting,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "compared_now": compared or f"nothing: {report.budget.why_not or 'no entity is up to date'}",
            "records_compared": sum(report.compared.values()),
            "differences": len(found),
            "first_differences": found[:20],
            "not_read_back_yet": waiting,
            "to_be_looked_at_again": report.suspicions,
            "api_requests": report.requests,
            "api_requests_in_24_hours": report.budget.spent,
            "api_requests_allowed_a_day": report.budget.a_day,
            **({"days_to_compare_all": round(report.days_for_all, 2)} if report.days_for_all is not None else {}),
            **({"not_compared": report.failed} if report.failed else {}),
        },
    )


def _drifted(warehouse: Warehouse, entities: Sequence[str]) -> int:
    """Records that were found to differ and are not read back."""

    def of(entity: str) -> int:
        ledger = Ledger.open(warehouse, entity)
        return ledger.counts().get(Doubt.DRIFT, 0) if ledger else 0

    return sum(all_side_by_side(of, entities, warehouse.looks_at_once))


def result_of_audit(reports: Sequence[VerifyReport], not_built: Sequence[str]) -> dg.AssetCheckResult:
    """Passed when every compared record equals the org. Entities without a table yet are left out and named."""
    lines = [
        "| entity | org | table | compared | changed meanwhile | in doubt | different | parts read | skipped "
        "| API requests |",
        "|" + " --- |" * 10,
    ]
    for report in reports:
        cells = (
            report.entity,
            report.in_org,
            report.in_table,
            report.compared,
            report.changed_meanwhile,
            report.in_doubt,
            len(report.differences),
            report.windows,
            report.skipped,
            report.calls,
        )
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    refused = [report.refused for report in reports if report.refused]
    differences = [str(found) for report in reports for found in report.differences]
    differences += [
        f"{report.entity} {record_id}: its versions in history do not follow one another; run `sfcdc rebuild`"
        for report in reports
        for record_id in report.broken_histories
    ]
    return dg.AssetCheckResult(
        passed=not differences and not refused,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "compared": dg.MetadataValue.md("\n".join(lines)),
            "records_compared": sum(report.compared for report in reports),
            "records_not_compared": sum(len(report.left) for report in reports),
            "differences": len(differences),
            "first_differences": differences[:20],
            "not_audited": refused,
            "not_built_yet": list(not_built),
            "api_requests": sum(report.calls for report in reports),
        },
    )
