"""Whether the tables equal the org, as an asset check of `current_state`.

It reports and changes no table that it is about. What a job's run finds, the job hands on to the next read-back.
"""

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.gap_reconciliation import LAYER, Ledger
from sfcdc_assets.lake.tables.rolling_audits import RollingAudits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import opened_run
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.reconciliation.rolling_audit import RollingReport, look
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.timeline.suspect import Reason

NAME = "equals_the_org"
DESCRIPTION = (
    "Compares records with the org, field by field, within SFCDC_AUDIT_PERCENT of the org's daily API "
    "requests: each run those that it changed and those that were not looked at for longest. Fails for what "
    "differs until it is read back; hard deletes, which raise no event, are found this way. Warns when nothing was "
    "compared for a day. The job `audit` compares all."
)
LATELY_MS = 24 * 3600 * 1000
"""A comparison that is older says nothing of the tables as they are."""
COMPARED = (
    *("entity", "org", "table", "compared", "changed meanwhile", "suspect", "different", "parts read", "skipped"),
    "API requests",
)


def compared_now(assets: OrgAssets) -> dg.AssetCheckResult:
    """Compare some records; passes when something was compared in the last day, and nothing is known to differ from the
    org."""
    with opened_run(assets, "") as run:
        warehouse, settings = run.warehouse, run.settings
        known = entity_channels(warehouse, settings.channels, settings.entities, run.org.members)
        states = auditable(entity_states(warehouse, known))
        built = {state.entity: state.channel for state in states}
        report = look(run, built, {}, {})
    return result_of_look(warehouse, report, list(known))


def checked(warehouse: Warehouse, _settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result without asking the org: whether all that was found to differ is read back."""
    waiting = _drifted(warehouse, warehouse.entities(LAYER))
    looks = RollingAudits(warehouse).looks().values()
    newest = max((each.at_ms for each in looks), default=0)
    return dg.AssetCheckResult(
        passed=not waiting and _is_lately(newest),
        severity=dg.AssetCheckSeverity.ERROR if waiting else dg.AssetCheckSeverity.WARN,
        metadata={
            "compared_now": "nothing",
            **({"compared_last": dg.MetadataValue.timestamp(newest / 1000)} if newest else {}),
            "not_read_back_yet": waiting,
            "to_be_looked_at_again": sum(len(each.suspicions) for each in looks),
        },
    )


def auditable(states: Sequence[EntityState]) -> list[EntityState]:
    """Return those whose tables have all that is complete of the stream: only these can be compared."""
    return [
        state
        for state in states
        if state.snapshot_applied
        and not state.lacks_snapshot
        and not state.pending_reads
        and not state.has_events_up_to(state.complete)
    ]


def result_of_look(warehouse: Warehouse, report: RollingReport, entities: Sequence[str]) -> dg.AssetCheckResult:
    """Pass when nothing differs for sure, nothing that did still waits to be read back, and something was compared now
    or in the day before. Where nothing was, nobody knows: a warning."""
    waiting = _drifted(warehouse, entities)
    found = [each.place for each in report.differences]
    compared = ", ".join(f"{count} of {entity}" for entity, count in report.compared.items())
    newest = max((each.at_ms for each in RollingAudits(warehouse).looks().values()), default=0)
    is_known = _is_lately(newest) and not (report.failed and not any(report.compared.values()))
    return dg.AssetCheckResult(
        passed=not found and not waiting and is_known,
        severity=dg.AssetCheckSeverity.ERROR if found or waiting else dg.AssetCheckSeverity.WARN,
        metadata={
            "compared_now": compared or f"nothing: {report.budget.why_not or 'no entity is up to date'}",
            **({"compared_last": dg.MetadataValue.timestamp(newest / 1000)} if newest else {}),
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


def _is_lately(at_ms: int) -> bool:
    return clock.now_ms() - at_ms <= LATELY_MS


def _drifted(warehouse: Warehouse, entities: Sequence[str]) -> int:
    """Return records that were found to differ and are not read back."""

    def of(entity: str) -> int:
        ledger = Ledger.open(warehouse, entity)
        return ledger.counts().get(Reason.DRIFT, 0) if ledger else 0

    return sum(of_readable(of, entities, warehouse.looks_at_once).values())


def result_of_audit(reports: Sequence[VerifyReport], not_built: Sequence[str]) -> dg.AssetCheckResult:
    """Pass when every compared record equals the org, and there was something to compare. Entities without a table yet
    are left out and named."""
    rows = [
        (
            report.entity,
            report.in_org,
            report.in_table,
            report.compared,
            report.changed_meanwhile,
            report.suspects,
            len(report.differences),
            report.windows,
            report.skipped,
            report.calls,
        )
        for report in reports
    ]
    refused = [report.refused for report in reports if report.refused]
    differences = [found.place for report in reports for found in report.differences]
    differences += [
        f"{report.entity} {record_id}: its versions in history do not follow one another; run `sfcdc rebuild`"
        for report in reports
        for record_id in report.broken_histories
    ]
    is_known = any(report.compared for report in reports) or (bool(reports) and not any(r.in_org for r in reports))
    return dg.AssetCheckResult(
        passed=not differences and not refused and is_known,
        severity=dg.AssetCheckSeverity.ERROR if differences or refused else dg.AssetCheckSeverity.WARN,
        metadata={
            "compared": rows_value(COMPARED, rows),
            "records_compared": sum(report.compared for report in reports),
            "records_not_compared": sum(len(report.left) for report in reports),
            "differences": len(differences),
            "first_differences": differences[:20],
            "not_audited": refused,
            "not_built_yet": list(not_built),
            "api_requests": sum(report.calls for report in reports),
        },
    )
