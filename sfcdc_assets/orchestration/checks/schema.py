"""Whether the tables' columns follow the org's fields, as an asset check of `current_state`."""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.runtime.times import seconds_text
from sfcdc_assets.schema_evolution.schema_audit import NEWS, SchemaAudit, audit_schema
from sfcdc_assets.settings.settings import Settings

NAME = "schema_follows_the_org"
DESCRIPTION = (
    "Compares the columns of each table with the fields that the newest event schema and describe show: "
    "it fails where a field has no column, or one of another type, an hour after the schema was seen. New, retired and "
    "retyped columns are reported and fail nothing. Reads no rows and makes no API calls."
)


def checked(warehouse: Warehouse, settings: Settings) -> dg.AssetCheckResult:
    """Return the check's result now."""
    schemas, privacy, now = Schemas(warehouse), Privacy.of(settings), datetime.now(UTC)
    entities = warehouse.entities(current_state.LAYER)

    def audit(entity: str) -> SchemaAudit | None:
        return audit_schema(warehouse, schemas, privacy, entity, now)

    audited = of_readable(audit, entities, warehouse.looks_at_once)
    return _result([audit for audit in audited.values() if audit is not None], now)


def _result(audits: Sequence[SchemaAudit], now: datetime) -> dg.AssetCheckResult:
    """Return what does not follow, what still may, and the news."""
    wrong = [audit for audit in audits if not audit.follows and not audit.may_still_follow(now)]
    late = [audit for audit in audits if not audit.follows and audit.may_still_follow(now)]
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "not_followed": [line for audit in wrong for line in _problems(audit)],
            "may_follow_with_the_next_run": [line for audit in late for line in _problems(audit)],
            f"changes_of_{NEWS.days}_days": [f"{audit.entity}: {change}" for audit in audits for change in audit.news],
            "columns": _table(audits),
        },
    )


def _problems(audit: SchemaAudit) -> list[str]:
    return [f"{audit.entity}: {name} has no column" for name in audit.missing] + [
        f"{audit.entity}: {description}" for description in audit.wrong
    ]


def _table(audits: Sequence[SchemaAudit]) -> dg.TableMetadataValue:
    return rows_value(
        ("entity", "columns", "retired", "kept before", "newest schema seen"),
        [
            (
                audit.entity,
                audit.columns,
                ", ".join(audit.retired),
                ", ".join(audit.kept_before),
                seconds_text(audit.schema_seen_at),
            )
            for audit in audits
        ],
    )
