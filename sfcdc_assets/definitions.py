"""What Dagster loads where sfcdc_assets is a code location of its own: the org of the environment."""

import dagster as dg

from sfcdc_assets.orchestration.build_defs import definitions_of
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.runtime.json_logs import OURS, write_logs_as_json

ASSETS = OrgAssets.of_this_process()
SETTINGS = ASSETS.settings()
LOGS_JSON = SETTINGS.log_format == "json"
if LOGS_JSON:
    write_logs_as_json(of=OURS, org=SETTINGS.org)  # in the processes of runs too

# What is of the whole code location, and so not in `build_defs`. One JVM and one session for a whole run, also of what
# people materialize; a process for each step would start one each (docs/dagster-notes.md, "Executors and Spark").
defs = dg.Definitions.merge(
    definitions_of(ASSETS),
    dg.Definitions(executor=dg.in_process_executor, loggers={"console": dg.json_console_logger} if LOGS_JSON else None),
)
