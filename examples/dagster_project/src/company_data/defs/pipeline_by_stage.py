"""What the company builds: an asset that follows an entity's own asset."""

import dagster as dg

from sfcdc_assets import open_cut

WAREHOUSE = dg.EnvVar("SFCDC_WAREHOUSE")


@dg.asset(deps=[["salesforce", "opportunity"]], automation_condition=dg.AutomationCondition.eager())
def pipeline_by_stage() -> dg.MaterializeResult:
    """Amounts of living opportunities by stage, at one consistent cut."""
    cut = open_cut(WAREHOUSE.get_value() or "./warehouse")
    rows = cut.duckdb().sql("SELECT StageName, sum(Amount) FROM opportunity GROUP BY ALL ORDER BY ALL").fetchall()
    return dg.MaterializeResult(metadata={"stages": len(rows), "amounts": dg.MetadataValue.json(dict(rows))})
