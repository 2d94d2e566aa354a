"""What `sfcdc dev` refuses, and what it puts right, before Dagster is started."""

from __future__ import annotations

import socket
import stat
import subprocess
from pathlib import Path

import dagster as dg
import yaml
from typer.testing import CliRunner

from sfcdc_assets.cli.dev import names_an_org
from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE, FolderInUse, only_user_of, prepare, write_environment
from sfcdc_assets.cli.local_dagster.lost_runs import fail_lost_runs
from sfcdc_assets.cli.main import app
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets_tests.cli.command import SCRIPT


def test_a_taken_port_is_one_plain_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = CliRunner().invoke(app, ["dev", "--dir", str(tmp_path), "--port", str(port)])
    assert ended.exit_code == 1
    assert f"Port {port} for the Dagster UI" in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_dagster_home_has_the_settings_of_its_instance_and_a_workspace_that_needs_no_clone(tmp_path: Path) -> None:
    workspace = yaml.safe_load(prepare(tmp_path / "home").read_text())
    (location,) = (each["python_module"] for each in workspace["load_from"])
    assert (location["module_name"], location["location_name"]) == ("sfcdc_assets.definitions", "sfcdc_assets")
    assert Path(location["working_directory"], "sfcdc_assets", "definitions.py").exists()
    assert (tmp_path / "home" / "dagster.yaml").read_text() == INSTANCE.read_text()


def test_another_terminal_gets_the_same_settings_by_one_line_and_no_secret_but_the_emulated_orgs(
    tmp_path: Path,
) -> None:
    emulated = {"SFCDC_CLIENT_ID": "emulated", "SFCDC_CLIENT_SECRET": "for-this-machine"}
    own = {"SFCDC_WAREHOUSE": "/data/o'clock", "SFCDC_HASH_KEY": "s3cret", "HOME": "/root"}
    own["SFCDC_SPARK_CONF_spark.driver.memory"] = "2g"
    file = tmp_path / "dev.env"
    for environment in ({**own, "SFCDC_WAREHOUSE": "old"}, {**emulated, **own}):
        write_environment(file, environment, emulated, tmp_path / "home")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in file.read_text()
    shell = subprocess.run(
        ["sh", "-c", f'. {file}; echo "$SFCDC_WAREHOUSE|$DAGSTER_HOME|$SFCDC_CLIENT_SECRET"; command -v sfcdc'],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shell.stdout.splitlines() == [f"/data/o'clock|{tmp_path / 'home'}|for-this-machine", str(SCRIPT)]
    assert (list(tmp_path.iterdir()), shell.stderr) == ([file], "")


def test_a_folder_that_is_in_use_is_named(tmp_path: Path) -> None:
    with only_user_of(tmp_path):
        ended = CliRunner().invoke(app, ["dev", "--dir", str(tmp_path), "--port", "0"])
    assert ended.exit_code == 1
    assert str(FolderInUse(tmp_path)) in ended.stderr


def test_any_login_means_a_real_org() -> None:
    nothing = Settings.model_construct()
    assert not names_an_org(nothing)
    assert names_an_org(nothing.model_copy(update={"instance_url": "https://mycompany.my.salesforce.com"}))
    assert names_an_org(nothing.model_copy(update={"username": "integration@mycompany.example"}))


def test_a_run_that_lost_its_dagster_counts_as_failed_and_an_ended_one_stays(tmp_path: Path) -> None:
    @dg.job
    def nothing() -> None:
        """Has no steps."""

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        ended = nothing.execute_in_process(instance=instance).run_id
        lost = instance.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED).run_id
    assert fail_lost_runs(tmp_path) == 1
    assert fail_lost_runs(tmp_path) == 0
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        assert instance.get_run_by_id(lost).status == dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]
        assert instance.get_run_by_id(ended).status == dg.DagsterRunStatus.SUCCESS  # type: ignore[union-attr]
