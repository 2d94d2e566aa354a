"""The code locations of several orgs: their names in one Dagster instance are apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS

CHILD = "import json, os; print(json.dumps(sorted(name for name in os.environ if 'SECRET' in name.upper())))"
LOADED = (
    f"CHILD = {CHILD!r}"
    + """
import json, subprocess, sys
import sfcdc_assets.orgs
from sfcdc_assets.runtime.errors import SettingsError
try:
    sfcdc_assets.orgs.latam
except SettingsError as error:
    unknown = str(error)
defs = sfcdc_assets.orgs.emea
assert defs is sfcdc_assets.orgs.emea
try:
    sfcdc_assets.orgs.apac
except SettingsError as error:
    second = str(error)
graph = defs.resolve_asset_graph()
jobs = {job.name: dict(job.tags) for job in defs.jobs}
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.settings.channel_kinds import APPEND_ONLY
from sfcdc_assets.settings.settings import load_settings
print(json.dumps({
    "keys": [list(key.path) for key in graph.get_all_asset_keys()],
    "checks": [list(key.asset_key.path) for key in graph.asset_check_keys],
    "partitions": [each.name for each in (ASSETS.entities, *map(ASSETS.folders, APPEND_ONLY))],
    "pools": sorted({pool for each in defs.assets for pool in getattr(each, "op", None) and each.op.pools or ()}),
    "jobs": jobs,
    "asked": ASSETS.concurrency_key("/data/ChangeEvents", "sync"),
    "warehouse": load_settings().warehouse,
    "unknown": unknown,
    "second": second,
    "inherited": json.loads(subprocess.check_output([sys.executable, "-c", CHILD])),
}))
"""
)


def test_what_an_instance_lists_once_for_all_code_locations_has_the_orgs_name(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    settings = {
        "SFCDC_ORGS": "emea,apac",
        "SFCDC_EMEA_WAREHOUSE": "/data/emea",
        "SFCDC_APAC_WAREHOUSE": "/data/apac",
        "SFCDC_CHANNELS": "/data/ChangeEvents,/event/Order__e",
        "SFCDC_EMEA_CLIENT_SECRET": "of emea",
        "SFCDC_APAC_CLIENT_SECRET": "of apac",
        "SFCDC_APAC_SPARK_CONF_spark.authenticate.secret": "of apac's Spark",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADED],
        env={**kept, **settings, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {tuple(path[:-1]) for path in (*found["keys"], *found["checks"])} == {("salesforce", "emea")}
    assert ["salesforce", "emea", "ChangeEvents"] in found["keys"]
    names = [*found["partitions"], *found["pools"], *found["jobs"]]
    assert {name.partition("_")[0] for name in names} == {"salesforce"}
    assert {name.split("_")[1] for name in names} == {"emea"}
    assert {tags["sfcdc/prefix"] for tags in found["jobs"].values()} == {"salesforce_emea"}
    queued = {tags.get("sfcdc/concurrency_key") for tags in found["jobs"].values()} - {None}
    assert all(name.startswith("salesforce_emea_") for name in (*queued, found["asked"]))
    assert found["warehouse"] == "/data/emea"
    assert found["inherited"] == ["SFCDC_EMEA_CLIENT_SECRET"], "runs and workers have their own org's secrets alone"
    assert found["unknown"].startswith("SFCDC_ORG: 'latam' is not one of SFCDC_ORGS (emea, apac).")
    assert found["second"].startswith("SFCDC_ORG: this process serves emea already, not apac.")
