"""The project of examples/dagster_project, as somebody who has Dagster uses the component."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets_tests.dagster_project import dagster_project_run
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

PROJECT = ROOT / "examples" / "dagster_project"
SMALL_SPARK = '  spark_master: "local[2]"\n  spark_conf: {spark.sql.shuffle.partitions: 2}\n'
ELSEWHERE = ("instance_url", "pubsub_endpoint", "ca_file")
KEEPALIVE = 5.0
"""Seconds. The first cut waits for one, and no clock of the project's process jumps over the 270 of Salesforce."""


OWN = """\
create-dagster project company --no-uv-sync
cd company
dg scaffold defs sfcdc_assets.SalesforceCdcComponent salesforce
cat > src/company/defs/pipeline_by_stage.py <<'END'
import dagster as dg, sfcdc_assets
@dg.asset(deps=[["salesforce", "opportunity"]], automation_condition=dg.AutomationCondition.eager())
def pipeline_by_stage():
    by_stage = "SELECT StageName, sum(Amount) FROM opportunity GROUP BY ALL"
    amounts = sfcdc_assets.open_cut("warehouse").duckdb().sql(by_stage).fetchall()
    return dg.MaterializeResult(metadata={"amounts": dg.MetadataValue.json(dict(amounts))})
"""
"""All that somebody types: ten lines."""
FIVE_MINUTES = 300.0


def run(folder: Path, *command: str) -> str:
    """Run a program in the project; what it said."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}", "NO_COLOR": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment["DG_CLI_DISABLE_UPDATE_CHECK"] = "1"
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[:2000] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(PROJECT, tmp_path / "dagster_project"))


@pytest.mark.slow
def test_a_component_is_listed_scaffolded_and_loads(project: Path) -> None:
    dg = str(Path(sys.executable).parent / "dg")
    assert "sfcdc_assets.SalesforceCdcComponent" in run(project, dg, "list", "components", "--json")
    run(project, dg, "scaffold", "defs", "sfcdc_assets.SalesforceCdcComponent", "apac", "--key-prefix", "apac")
    scaffolded = yaml.safe_load((project / "src/company_data/defs/apac/defs.yaml").read_text())
    assert scaffolded["type"] == "sfcdc_assets.SalesforceCdcComponent"
    assert scaffolded["attributes"]["key_prefix"] == "apac"
    assert scaffolded["attributes"]["client_secret"] == "{{ env('SFCDC_CLIENT_SECRET', '') }}"
    assert "loaded successfully" in run(project, dg, "check", "defs"), "two orgs and an asset of one's own"


@pytest.mark.slow
def test_an_asset_downstream_is_asked_for_when_its_entity_is_in_a_cut(
    project: Path, tmp_path: Path, make_pipeline: Callable[..., EmulatedPipeline]
) -> None:
    pipeline = make_pipeline("Account", "Opportunity", records=8, timing=StreamTiming(keepalive=KEEPALIVE))
    with (project / "src/company_data/defs/salesforce/defs.yaml").open("a") as file:
        file.write(SMALL_SPARK)
    assert_followed(pipeline, project, "company_data", tmp_path / "instance")


@pytest.mark.slow
def test_from_an_empty_folder_to_the_first_table_in_under_five_minutes(
    tmp_path: Path, make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline("Account", "Opportunity", records=8, timing=StreamTiming(keepalive=KEEPALIVE))
    monkeypatch.delenv("SFCDC_WAREHOUSE")
    assert len(OWN.splitlines()) == len([line for line in OWN.splitlines() if line.strip()]) == 10
    empty = tmp_path / "empty"
    empty.mkdir()
    began, cpu = time.monotonic(), cpu_of_programs()
    run(empty, "bash", "-e", "-c", f"{OWN}END\n")
    with (empty / "company/src/company/defs/salesforce/defs.yaml").open("a") as file:  # an org elsewhere than usual
        file.write(SMALL_SPARK + "".join(f"  {name}: {os.environ['SFCDC_' + name.upper()]!r}\n" for name in ELSEWHERE))
    assert_followed(pipeline, empty / "company", "company", tmp_path / "instance")
    seconds, cpu = time.monotonic() - began, cpu_of_programs() - cpu
    print(
        f"from an empty folder to the first table, and an asset downstream of it: {seconds:.0f} s, {cpu:.0f} s of CPU"
    )
    assert min(seconds, cpu) < FIVE_MINUTES, "by itself: beside other work on all cores it waits for those"


def cpu_of_programs() -> float:
    """Seconds of CPU of all that were run and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def assert_followed(pipeline: EmulatedPipeline, project: Path, package: str, instance: Path) -> None:
    """The project's tables come, and then its asset is asked for, once, and says what the org does."""
    said = run(
        project, sys.executable, "-W", "ignore", str(dagster_project_run.__file__),
        str(project / "src" / package), str(instance),
    )  # fmt: skip
    (line,) = [each for each in said.splitlines() if each.startswith('{"')]
    found = json.loads(line)
    records = pipeline.org.records("Opportunity")
    assert (found["asked_before"], found["asked"], found["success"]) == (0, 1, True)
    assert found["jobs"] == ["salesforce_snapshot", "salesforce_sync"]
    assert found["rows"] == len(list(records))
    assert {"Id", "StageName", "Amount"} <= set(found["columns"])
    by_stage: dict[str, float] = {}
    for record in pipeline.org.records("Opportunity"):
        by_stage[str(record["StageName"])] = by_stage.get(str(record["StageName"]), 0.0) + float(record["Amount"] or 0)
    assert {stage: round(amount or 0, 2) for stage, amount in found["amounts"].items()} == {
        stage: round(amount, 2) for stage, amount in by_stage.items()
    }
