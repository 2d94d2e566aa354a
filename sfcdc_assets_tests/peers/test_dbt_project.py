"""The dbt project of examples/, with dbt itself and dagster-dbt: downstream of the copy, in one graph.

dbt's pins collide with those of the tools that check this package, so it is in an environment of its own, which sees
this one's packages.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.peers.installed_once import installed_once
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, new_org, only_settings_of_tests, served

pytestmark = pytest.mark.slow

PACKAGES = ("dbt-core==1.11.16", "dbt-duckdb==1.11.1", "dagster-dbt==0.29.27", "duckdb==2.0.0")
GRAPH = """
import json, sys
import dagster as dg
from definitions import analytics, defs
from dagster_dbt import DbtCliResource
graph = defs.resolve_asset_graph()
models = {node.key.to_user_string(): sorted(each.to_user_string() for each in node.parent_keys)
          for node in map(graph.get, graph.get_all_asset_keys()) if node.key in analytics.keys}
with dg.DagsterInstance.ephemeral() as instance:
    run = dg.materialize([analytics], instance=instance, resources={"dbt": defs.resources["dbt"]}, raise_on_error=False)
made = sorted(each.asset_key.to_user_string() for each in run.get_asset_materialization_events())
keys = sorted(key.to_user_string() for key in graph.get_all_asset_keys())
print("FOUND", json.dumps({"models": models, "all": keys, "success": run.success, "made": made}))
"""


def dbt_environment() -> Path:
    """The folder with the commands. Skips the test, and says why, where they cannot be had."""
    ours = sysconfig.get_paths()["purelib"]

    def commands(folder: Path) -> list[list[str]]:
        shown = f"import site; site.addsitedir({ours!r})\n"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        put = f"open({str(folder / 'lib' / version / 'site-packages' / 'ours.pth')!r}, 'w').write({shown!r})"
        install = ["install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        return [
            [sys.executable, "-m", "venv", "--without-pip", str(folder)],
            [sys.executable, "-c", put],
            [sys.executable, "-m", "pip", "--python", str(folder), *install],
        ]

    return installed_once("dbt", "\n".join([sys.version, ours, *PACKAGES]), commands) / "bin"


@pytest.fixture(scope="module")
def commands() -> Path:
    return dbt_environment()


@pytest.fixture
def pipeline(commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedPipeline]:
    org = new_org(tmp_path / "org", ("Account", "Opportunity", "User"), records=8)
    monkeypatch.chdir(tmp_path)
    with pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        with served(org, tmp_path, patch) as pipeline:
            pipeline.sync()
            monkeypatch.setenv("SFCDC_WAREHOUSE", str(pipeline.warehouse))
            monkeypatch.setenv("SFCDC_VIEWS_FILE", str(tmp_path / "salesforce.duckdb"))
            monkeypatch.setenv("ANALYTICS_FILE", str(tmp_path / "analytics.duckdb"))
            monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
            monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
            yield pipeline


def run(project: Path, program: Path, *arguments: str) -> str:
    done = subprocess.run(
        [str(program), *arguments],
        cwd=project,
        env={**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def built(tmp_path: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(tmp_path / "analytics.duckdb"), read_only=True) as analytics:
        return analytics.execute(query).fetchall()


def test_models_hang_on_the_entities_and_are_kept_in_step(
    pipeline: EmulatedPipeline, commands: Path, tmp_path: Path
) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(ROOT / "examples" / "dbt", project, ignore=shutil.ignore_patterns("target", "logs"))
    assert sfcdc("views", "--duckdb", str(tmp_path / "salesforce.duckdb")).exit_code == 0
    (project / "models" / "sources.yml").write_text(sfcdc("dbt-sources", "--database", "copy").stdout)
    run(project, commands / "dbt", "build", "--profiles-dir", ".", "--quiet")
    org = pipeline.org
    records = {str(each["Id"]): each for each in org.records("Opportunity")}
    rows = "SELECT opportunity_id, stage, is_deleted FROM opportunity_current ORDER BY ALL"
    assert built(tmp_path, rows) == sorted((key, each["StageName"], False) for key, each in records.items())

    first, second, *_ = records
    for stage in ("Negotiation/Review", "Closed Won"):
        with org.transaction() as one:
            one.update("Opportunity", first, {"StageName": stage})
        org.clock.advance(60_000)
    with org.transaction() as one:
        one.delete("Opportunity", second)
    pipeline.sync()
    said = run(project, commands / "python", "-c", GRAPH)
    found = json.loads(said.partition("FOUND ")[2].splitlines()[0])
    assert found["success"]
    assert found["models"]["stg_account"] == ["salesforce/account"]
    assert found["models"]["opportunity_stages"] == ["salesforce/opportunity"]
    assert found["models"]["opportunity_current"] == ["salesforce/opportunity"]
    assert found["models"]["opportunities_by_account"] == ["stg_account", "stg_opportunity"]
    assert set(found["made"]) >= found["models"].keys()
    assert {"salesforce/current_state", "salesforce/account"} <= set(found["all"])

    now = {key: (each["StageName"], False) for key, each in records.items()}
    now |= {first: ("Closed Won", False), second: (records[second]["StageName"], True)}
    assert built(tmp_path, rows) == sorted((key, *each) for key, each in now.items())
    newest = (
        "SELECT opportunity_id FROM opportunity_current WHERE _token = (SELECT max(_token) FROM opportunity_current)"
    )
    assert built(tmp_path, f"{newest} ORDER BY ALL") == sorted([(first,), (second,)]), "what has not changed stays"
    stages = built(
        tmp_path, f"SELECT stage FROM opportunity_stages WHERE opportunity_id = '{first}' ORDER BY entered_at"
    )
    assert stages == [(records[first]["StageName"],), ("Negotiation/Review",), ("Closed Won",)]
    amounts = built(tmp_path, "SELECT sum(opportunities) FROM opportunities_by_account")
    assert amounts == [(sum(key != second and bool(each["AccountId"]) for key, each in records.items()),)]
