"""The graph of a company's project: the component's entities, an asset of its own and dbt's models downstream of them.

`SCREENSHOTS=1 python -m pytest sfcdc_assets_tests/peers/test_graph_with_dbt.py` writes the picture of
docs/your-dagster.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.peers.test_dbt_project import dbt_environment, run
from sfcdc_assets_tests.sql.small_warehouse import small_warehouse
from sfcdc_assets_tests.ui.browser import SCREENSHOTS, image, opened_page, without_browser
from sfcdc_assets_tests.ui.test_dagster_ui import hide_all_but_the_graph

pytestmark = pytest.mark.slow

ENTITIES = ("Account", "Opportunity")
TOGETHER = """
from pathlib import Path
import dagster as dg
from dagster_dbt import DbtCliResource
from definitions import PROJECT, analytics
defs = dg.Definitions.merge(
    dg.load_from_defs_folder(path_within_project=Path("dagster_project/src/company_data").resolve()),
    dg.Definitions(assets=[analytics], resources={"dbt": DbtCliResource(project_dir=PROJECT)}),
)
"""
SHOWN = ("account", "opportunity", "pipeline_by_stage", "stg_account", "stg_opportunity", "opportunity_stages")
"""Longer names are shortened on the page."""


@contextmanager
def webserver(project: Path, program: Path) -> Iterator[str]:
    """Dagster's own, over the definitions of both projects; its address."""
    port = free_port()
    command = [program, "-m", "dagster_webserver", "-f", "together.py", "-h", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert server.poll() is None, (project / "webserver.log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{url}/server_info", timeout=5):
                return True
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    with (project / "webserver.log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=project,
            env={
                **os.environ,
                "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": f"{project / 'dagster_project' / 'src'}{os.pathsep}{ROOT}",
            },
            stdout=log,
            stderr=log,
        )
        try:
            eventually(answers, "the webserver", seconds=400)
            yield url
        finally:
            server.terminate()
            server.wait(30)


@without_browser
def test_models_and_a_companys_asset_stand_behind_the_entities_in_one_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = dbt_environment()
    project = Path(shutil.copytree(ROOT / "examples" / "dbt", tmp_path / "dbt"))
    shutil.copytree(ROOT / "examples" / "dagster_project", project / "dagster_project")
    (project / "together.py").write_text(TOGETHER)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    warehouse = small_warehouse(tmp_path / "warehouse", ENTITIES)
    for name, value in {
        "SFCDC_WAREHOUSE": str(warehouse.folder),
        "SFCDC_VIEWS_FILE": str(tmp_path / "salesforce.duckdb"),
        "ANALYTICS_FILE": str(tmp_path / "analytics.duckdb"),
        "DAGSTER_HOME": str(tmp_path),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    }.items():
        monkeypatch.setenv(name, value)
    (project / "models" / "sources.yml").write_text(sfcdc("dbt-sources", "--database", "copy").stdout)
    run(project, program / "dbt", "parse", "--profiles-dir", ".", "--quiet")
    with webserver(project, program / "python") as url, opened_page(tmp_path / "chromium", 1900, 1100) as page:
        page.goto(f"{url}/asset-groups")
        hide_all_but_the_graph(page)
        expect(page.get_by_text("salesforce", exact=True).first).to_be_visible()
        page.keyboard.press("Alt+E")  # expand all groups
        for name in SHOWN:
            expect(page.get_by_text(name, exact=True).first).to_be_visible()
        if SCREENSHOTS:
            page.wait_for_timeout(3_000)
            page.screenshot(path=image("graph-with-dbt.png"))
