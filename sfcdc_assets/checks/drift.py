"""Whether the tables equal the org, as an asset check of `current_state`."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from sfcdc_assets.pipeline.audits.verify import VerifyReport

NAME = "equals_the_org"


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
