"""What Dagster's daemon does for the example's project, in one process: ticks, the runs that they ask for, and what
declarative automation asks for then. Prints what came of it as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg

from sfcdc_assets.orchestration.sensors.channel import OWN_SPARK

DOOR, DOWNSTREAM = dg.AssetKey(["salesforce", "opportunity"]), dg.AssetKey("pipeline_by_stage")
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SECONDS = 420


def main() -> None:
    """Until the entity's asset is there, and what follows it."""
    OWN_SPARK.end()  # each run has its own here
    defs = dg.load_from_defs_folder(path_within_project=Path(sys.argv[1]))
    Path(sys.argv[2]).mkdir()
    with dg.DagsterInstance.local_temp(sys.argv[2]) as instance:
        before = dg.evaluate_automation_conditions(defs, instance)
        jobs: list[str] = []
        until = time.monotonic() + SECONDS
        while instance.get_latest_materialization_event(DOOR) is None and time.monotonic() < until:
            jobs += tick(defs, instance)
        asked = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)
        job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={DOWNSTREAM})
        done = job.execute_in_process(instance=instance, run_config=QUIET)
        events = [instance.get_latest_materialization_event(key) for key in (DOOR, DOWNSTREAM)]
        door, downstream = (event.asset_materialization.metadata for event in events if event is not None)
        found = {
            "asked_before": before.get_num_requested(DOWNSTREAM),
            "asked": asked.get_num_requested(DOWNSTREAM),
            "jobs": sorted(set(jobs)),
            "success": done.success,
            "rows": door["dagster/row_count"].value,
            "columns": [column.name for column in door["dagster/column_schema"].schema.columns],
            "amounts": downstream["amounts"].value,
        }
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def tick(defs: dg.Definitions, instance: dg.DagsterInstance) -> list[str]:
    """One tick of the channel's sensor, and its runs, which follow nobody."""
    with dg.build_sensor_context(instance, definitions=defs) as context:
        found = defs.resolve_sensor_def("salesforce_poll_ChangeEvents").evaluate_tick(context)
    for event in found.asset_events:
        instance.report_runless_asset_event(event)
    for request in found.run_requests or ():
        config: dict[str, Any] = json.loads(json.dumps(request.run_config))
        for step in config["ops"].values():
            step["config"].pop("follow_seconds", None)
        job = defs.resolve_job_def(request.job_name or "")
        job.execute_in_process(instance=instance, run_config={**QUIET, **config}, tags=dict(request.tags))
    time.sleep(0.5)
    return [str(request.job_name) for request in found.run_requests or ()]


if __name__ == "__main__":
    main()
