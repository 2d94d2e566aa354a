"""The Compose file and the Dagster instance of the deployment: valid, and its commands work together on this machine.

The image is built nowhere here, and no container is started.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster_postgres.utils import DagsterPostgresException

from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.jobs.event_log import Ours, forget
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.spark.session import spark_options
from sfcdc_assets_tests.deploy.deployment import BIN, DEPLOY, command, ours, services, without_defaults, write_home
from sfcdc_assets_tests.deploy.postgres import PASSWORD, Postgres, postgres_server
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port
from sfcdc_assets_tests.leaks import files_with, texts_in


def test_the_compose_file_is_valid() -> None:
    schema = ["--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *schema], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_each_service_has_a_command_that_the_image_has() -> None:
    started = {name: service["command"].split()[0] for name, service in ours().items()}
    assert set(started) == {"code", "webserver", "viewer", "daemon", "spark-master", "spark-worker"}
    assert [name for name, program in started.items() if not os.access(BIN / program, os.X_OK)] == []


def test_the_settings_of_the_services_are_settings_and_reach_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without_settings(monkeypatch)
    (tmp_path / "spark_secret").write_text("s3cret\n")
    for name, value in services()["code"]["environment"].items():
        monkeypatch.setenv(name, without_defaults(value).replace("/run/secrets", str(tmp_path)))
    settings = load_settings()
    assert settings.warehouse == "/warehouse"
    options = spark_options(settings)
    assert options["spark.master"] == "spark://spark-master:7077"
    assert {name: options[name] for name in ("spark.driver.host", "spark.cores.max")} == {
        "spark.driver.host": "driver",
        "spark.cores.max": "2",
    }
    assert options["spark.authenticate.secret"] == "s3cret"
    reported = services()["spark-master"]["environment"]["SPARK_DAEMON_JAVA_OPTS"]
    assert services()["spark-worker"]["environment"]["SPARK_DAEMON_JAVA_OPTS"] == reported
    of_daemons = dict(each.removeprefix("-D").split("=") for each in reported.split())
    shared = {name: value for name, value in of_daemons.items() if name.startswith(("spark.auth", "spark.network"))}
    assert len(shared) == 4
    assert {name: options.get(name) for name in shared} == shared
    assert options["spark.io.encryption.enabled"] == "true"


def test_what_the_image_copies_is_there() -> None:
    copied = re.findall(r"^COPY (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    sources = [name for line in copied for name in line.split()[:-1]]
    assert sources
    assert [name for name in sources if not (ROOT / name).exists()] == []


def test_the_image_is_built_from_what_it_copies_and_nothing_else() -> None:
    copied = re.findall(r"^COPY (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    everything, *admitted = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()[1:]
    assert everything == "*"
    assert {name for name in admitted if name.startswith("!")} == {
        f"!{name}" for line in copied for name in line.split()[:-1]
    }


def test_only_the_code_server_has_the_orgs_login() -> None:
    assert [name for name, service in services().items() if "env_file" in service] == ["code"]
    assert [name for name, service in services().items() if "/run/org" in str(service.get("volumes"))] == ["code"]
    assert "DAGSTER_POSTGRES_PASSWORD_FILE" in services()["webserver"]["environment"]


def test_a_spark_worker_works_where_the_images_user_may_write_and_cleans_up() -> None:
    """Beside the installation, where root alone writes, it would end at once, and each run leaves a folder there."""
    worker = services()["spark-worker"]
    assert worker["command"].split()[worker["command"].split().index("--work-dir") + 1].startswith("/scratch/")
    assert worker["environment"]["SPARK_LOCAL_DIRS"].startswith("/scratch/")
    assert "/scratch" in worker["volumes"]
    made = "install --directory --owner sfcdc --group sfcdc --mode 0700 /warehouse /scratch"
    assert made in (DEPLOY / "Dockerfile").read_text()
    assert "spark.worker.cleanup.enabled=true" in worker["environment"]["SPARK_WORKER_OPTS"]
    assert worker["init"] is True


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A Postgres of this module's own."""
    with postgres_server() as server:
        yield server


@pytest.mark.slow
def test_old_runs_and_events_of_the_instance_in_postgres_are_forgotten_but_the_latest(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)

    @dg.op(out=dg.Out(dg.Nothing))
    def work() -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
        yield dg.AssetMaterialization(ASSETS.keys.current_state, partition="Account")
        yield dg.Output(None)

    job = dg.GraphDefinition(name="sync", node_defs=[work]).to_job()
    with dg.DagsterInstance.from_config(str(write_home(tmp_path / "dagster"))) as instance:
        runs = [job.execute_in_process(instance=instance).run_id for _ in range(3)]
        instance.report_runless_asset_event(dg.AssetMaterialization(ASSETS.keys.current_state, partition="Contact"))
        instance.report_runless_asset_event(dg.AssetMaterialization(ASSETS.keys.current_state, partition="Contact"))
        done = forget(instance, datetime.now(UTC) + timedelta(minutes=1), Ours(ASSETS.prefix, frozenset({"sync"})))
        assert (done.runs, done.events, done.kept) == (2, 1, 1)
        assert instance.get_run_ids() == [runs[-1]]
        assert instance.get_materialized_partitions(ASSETS.keys.current_state) == {"Account", "Contact"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the test closes to writers."""
    folder = Path(tempfile.mkdtemp(prefix="sfcdc-deploy-"))
    yield folder
    for each in (folder, folder / "dagster"):
        each.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.slow
def test_the_services_of_dagster_find_each_other_and_write_to_their_volume_and_temporary_files_alone(
    postgres: Postgres, place: Path
) -> None:
    ports = {name: free_port() for name in ("code", "webserver", "viewer")}
    workspace = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())
    (server,) = (each["grpc_server"] for each in workspace["load_from"])
    assert server["host"] in services()["code"]["networks"]["location"]["aliases"]
    assert {server["host"], str(server["port"])} <= set(command("code"))
    server |= {"host": "127.0.0.1", "port": ports["code"]}
    (place / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    here = {"sfcdc-code": "127.0.0.1", "0.0.0.0": "127.0.0.1", "4000": str(ports["code"])}
    (place / "password").write_text(f"{PASSWORD}\n")
    home, temporary, logs = write_home(place / "dagster"), place / "tmp", place / "logs"
    for folder in (temporary, logs):
        folder.mkdir()
    for folder in (place, home):
        folder.chmod(0o555)
    # As in a container without capabilities: root, too, writes only where it may.
    confined = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if os.getuid() == 0 else []
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    reported = {name: value for name, value in postgres.environment.items() if not name.endswith("PASSWORD")}
    environment = {
        **kept,
        **reported,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(temporary),
        "TMPDIR": str(temporary),
        "DAGSTER_HOME": str(home),
        "DAGSTER_POSTGRES_PASSWORD_FILE": str(place / "password"),
    }
    with ExitStack() as started:

        def start(service: str) -> None:
            log = started.enter_context((logs / f"{service}.log").open("wb"))
            where = {**here, "3000": str(ports.get(service, 0))}
            process = subprocess.Popen(
                [*confined, *command(service, **where)],
                env=environment,
                cwd=place,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            started.callback(_end, process)

        def healthy() -> bool:
            _, *words = services()["code"]["healthcheck"]["test"]
            asked = [str(BIN / words[0]), *(here.get(word, word) for word in words[1:])]
            return subprocess.run(asked, env=environment, capture_output=True, check=False).returncode == 0

        def job_names() -> list[str]:
            query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { jobs { name } } } } }"
            found = _ask(ports["webserver"], query)
            return [job["name"] for node in found["repositoriesOrError"]["nodes"] for job in node["jobs"]]

        def beats() -> bool:
            query = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }"
            found = _ask(ports["webserver"], query)
            statuses = found["instance"]["daemonHealth"]["allDaemonStatuses"]
            return {"SENSOR", "SCHEDULER", "QUEUED_RUN_COORDINATOR"} <= {
                each["daemonType"] for each in statuses if each["healthy"]
            }

        start("code")
        _wait(healthy, logs / "code.log")
        start("webserver")
        start("viewer")
        start("daemon")
        _wait(lambda: ASSETS.name("sync") in job_names(), logs / "webserver.log")
        _wait(beats, logs / "daemon.log")
        _wait(lambda: _permission(ports["viewer"]) is False, logs / "viewer.log")
        assert _permission(ports["webserver"]) is True
    assert {each.name for each in place.iterdir()} == {"workspace.yaml", "password", "dagster", "tmp", "logs"}
    assert {each.name for each in home.iterdir()} == {"dagster.yaml", "storage"}
    assert files_with({"the password": PASSWORD}, home, logs, temporary) == []


def test_a_password_that_is_wrong_is_said_and_not_shown(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    typed = "wr@ng/one:2"
    for name, value in {**postgres.environment, "DAGSTER_POSTGRES_PASSWORD": typed}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("dagster_postgres.utils.time.sleep", lambda seconds: None)
    with (
        pytest.raises(DagsterPostgresException, match="too many retries") as raised,
        dg.DagsterInstance.from_config(str(write_home(tmp_path / "dagster"))) as instance,
    ):
        instance.get_runs()
    said = caplog.text + "".join(traceback.format_exception(raised.value))
    assert "password authentication failed" in said
    assert texts_in({"what was typed": typed, "a part of it": "ng/one"}, said) == []


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started: a code server has the code in another process."""
    below = descendants(process.pid)
    for pid in (process.pid, *below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(BOUND_SECONDS)


def _permission(port: int) -> bool:
    """Whether a webserver lets who opens it launch runs."""
    found = _ask(port, "{ permissions { permission value } }")
    (launches,) = (each["value"] for each in found["permissions"] if each["permission"] == "launch_pipeline_execution")
    return bool(launches)


def _ask(port: int, query: str) -> Mapping[str, Any]:
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=BOUND_SECONDS) as answer:
        found: Mapping[str, Any] = json.load(answer)["data"]
        return found


def _wait(condition: Callable[[], bool], log: Path) -> None:
    def is_so() -> bool:
        try:
            return condition()
        except (OSError, KeyError):
            return False  # it does not listen yet, or has not loaded the code

    eventually(is_so, lambda: log.read_text()[-3000:])
