"""The drift audit as an asset check of `current_state`."""

import math

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.keys import CURRENT_STATE_KEY
from sfcdc_assets.config import load_settings
from sfcdc_assets.pipeline.audits.audit import audit
from sfcdc_assets.pipeline.audits.verify import open_drift_doubts
from sfcdc_assets.pipeline.entities import entity_channels, entity_states
from sfcdc_assets.pipeline.landing.lander import Poller
from sfcdc_assets.pipeline.landing.patience import POLL
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource


class AuditConfig(dg.Config):
    """How much an audit may cost."""

    budget: int = 1000
    """API requests; parts of entities that do not fit are named in the result and come first the next day."""
    entities: list[str] = []  # noqa: RUF012 - a field of a Dagster config
    """Only these; all when empty."""


@dg.asset_check(
    asset=CURRENT_STATE_KEY,
    name="equals_the_org",
    description="Reads the org by Bulk API 2.0 and compares it with the tables: record sets and every value. What "
    "differs gets a doubt and is read back by the next run; hard deletes, which raise no event, are found this way.",
)
def equals_the_org(config: AuditConfig, lake: LakeResource, org: OrgResource) -> dg.AssetCheckResult:
    """Passed when every compared record equals the org. Entities without a table yet are left out and named."""
    warehouse, settings = lake.warehouse(), load_settings()
    with org.connect(warehouse) as connected:
        known = entity_channels(warehouse, settings.channels, settings.entities, connected.members)
        if config.entities:
            known = {entity: channel for entity, channel in known.items() if entity in config.entities}
        built = {
            state.entity
            for state in entity_states(warehouse, known)
            if state.snapshot_applied and not state.channel_changed
        }
        chosen = {entity: known[entity] for entity in known if entity in built}
        with Poller(warehouse, connected, math.inf, POLL) as lander:
            # Other runs bring the tables up to date meanwhile, if any do; this one has no Spark.
            reports = audit(
                warehouse,
                connected,
                chosen,
                config.budget,
                lander=lander,
                visibility_seconds=settings.visibility_seconds,
                rounds=1,
            )
    now_ms = clock.now_ms()
    opened = {report.entity: open_drift_doubts(warehouse, report, now_ms) for report in reports}
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
            "doubts_opened": sum(opened.values()),
            "not_built_yet": [entity for entity in known if entity not in built],
            "api_requests": sum(report.calls for report in reports),
        },
    )


AUDIT_STEP = equals_the_org.op.name
"""The check's step in a job, which its configuration is for."""
