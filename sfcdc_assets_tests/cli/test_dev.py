"""What `sfcdc dev` refuses, and what it puts right, before Dagster is started."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml
from typer.testing import CliRunner

from sfcdc_assets.cli.dev import names_an_org
from sfcdc_assets.cli.local_dagster import kept_dagster
from sfcdc_assets.cli.local_dagster.dagster_home import INSTANCE, FolderInUse, only_user_of, prepare, write_environment
from sfcdc_assets.cli.local_dagster.kept_dagster import KeptDagster
from sfcdc_assets.cli.local_dagster.lost_runs import fail_lost_runs
from sfcdc_assets.cli.main import app
from sfcdc_assets.cli.terminal.interruption import SIGNALS, Interruption
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


def test_what_keeps_dagster_holds_no_library_that_only_its_start_needs(tmp_path: Path) -> None:
    """120 MB of a process that does nothing but wait. It stands in the place of the one that had them."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        f"from {kept_dagster.__name__} import KeptDagster\n"
        "print(*sorted({'dagster', 'pyarrow', 'polars', 'deltalake', 'pydantic', 'grpc', 'pyspark'} & {*sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interruption_while_all_is_prepared_starts_nothing(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = KeptDagster(str(tmp_path), "no workspace", "no home", 1, "text", keeps_spark=True, org=None)
    with Interruption() as interruption:
        os.kill(os.getpid(), number)
        kept.become({}, interruption)  # another program would not come back
    assert capsys.readouterr().err == f"Stopped. Everything is kept in {tmp_path}.\n"
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, []) & set(SIGNALS)


def test_an_interruption_while_one_program_takes_the_others_place_ends_that_one(tmp_path: Path) -> None:
    """The signal comes after the last look for it, when no handler stands yet: it waits until one does. And a file of
    the folder that a person is in is not taken for a library."""
    (tmp_path / "typer.py").write_text("raise SystemExit('a file of somebody else')")
    program = tmp_path / "bin" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "import os, signal, sys\n"
        f"from {kept_dagster.__name__} import KeptDagster\n"
        "from sfcdc_assets.cli.terminal.interruption import Interruption\n"
        f"kept = KeptDagster({str(tmp_path)!r}, 'none', {str(tmp_path)!r}, 1, 'text', keeps_spark=False, org=None)\n"
        "execve = os.execve\n"
        "def interrupted(*arguments):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    execve(*arguments)\n"
        "os.execve = interrupted\n"
        "with Interruption() as interruption:\n"
        "    kept.become({**os.environ}, interruption)\n"
    )
    ended = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stderr.splitlines() == ["Dagster is starting ...", f"Stopped. Everything is kept in {tmp_path}."]
    assert ended.returncode == 0


def test_a_folder_stays_in_use_when_another_program_takes_the_place_of_its_user(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from sfcdc_assets.cli.local_dagster.dagster_home import only_user_of\n"
        f"with only_user_of(Path({str(tmp_path)!r})):\n"
        f"    os.execv(sys.executable, [sys.executable, '-c', 'print(flush=True); open({read}).read()'])\n"
    )
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, pass_fds=[read]) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"\n"
        with pytest.raises(FolderInUse), only_user_of(tmp_path):
            pass
        os.close(write)
    os.close(read)
    with only_user_of(tmp_path):
        pass
