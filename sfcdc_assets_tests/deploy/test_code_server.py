"""The code server of a deployment: one process, healthy only with its code, and ended by SIGTERM with its runs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import ExecuteExternalJobArgs

from sfcdc_assets.cli.terminal.children import descendants
from sfcdc_assets_tests.deploy import endless_runs
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.free_port import free_port

pytestmark = pytest.mark.slow

GRACE_SECONDS = 10.0
"""Docker's, after which it kills."""
ENDLESS = endless_runs.__name__


def slowness() -> float:
    """How many times longer a loop takes here, now, than the tenth of a second on a machine that does nothing else; 1
    where it takes no longer."""
    began = time.perf_counter()
    sum(number * number for number in range(1_500_000))
    return max(1.0, (time.perf_counter() - began) / 0.1)


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it did not end yet."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


class CodeServer:
    """`python -m sfcdc_assets.code_server` with some code."""

    def __init__(self, folder: Path, module: str) -> None:
        self.home, self.port = folder / "dagster", free_port()
        self.home.mkdir()
        self.log = folder / "code_server.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SFCDC_", "DAGSTER_"))}
        self.environment = {**kept, "PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(self.home)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command("--host", "127.0.0.1", "--module-name", module),
                env=self.environment,
                cwd=folder,
                stdout=log,
                stderr=log,
            )

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "sfcdc_assets.code_server", "--port", str(self.port), *arguments]

    def checked(self) -> subprocess.CompletedProcess[str]:
        """What the health check says."""
        return subprocess.run(
            self._command("--check"), env=self.environment, capture_output=True, text=True, check=False
        )

    def listens(self) -> bool:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def wait(self) -> None:
        eventually(self.listens, lambda: self.log.read_text()[-3000:])

    def launch(self, instance: dg.DagsterInstance, job: dg.JobDefinition, said: Path) -> str:
        """A run of it that is at work, as the daemon launches it."""
        repository = RemoteRepositoryOrigin(
            GrpcServerCodeLocationOrigin(host="127.0.0.1", port=self.port, location_name="sfcdc_assets"),
            "__repository__",
        )
        origin = RemoteJobOrigin(repository, job.name)
        run = instance.create_run_for_job(
            job,
            run_config={"ops": {job.nodes[0].name: {"config": str(said)}}},
            remote_job_origin=origin,
            job_code_origin=dg.reconstructable(getattr(endless_runs, job.name)).get_python_origin(),
        )
        client = DagsterGrpcClient(port=self.port, host="127.0.0.1")
        arguments = ExecuteExternalJobArgs(job_origin=origin, run_id=run.run_id, instance_ref=instance.get_ref())
        client.start_run(arguments)
        eventually(said.exists, lambda: self.log.read_text()[-3000:])
        return run.run_id

    def end(self) -> None:
        for pid in (*descendants(self.process.pid), self.process.pid):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(BOUND_SECONDS)


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[CodeServer]:
    server = CodeServer(tmp_path, ENDLESS)
    try:
        server.wait()
        yield server
    finally:
        server.end()


@pytest.mark.parametrize("job", [endless_runs.waiting, endless_runs.deaf], ids=lambda job: str(job.name))
def test_sigterm_ends_the_code_server_and_its_runs_which_are_cancelled_and_nothing_stays_behind(
    endless: CodeServer, tmp_path: Path, job: dg.JobDefinition
) -> None:
    with dg.DagsterInstance.from_config(str(endless.home)) as instance:
        run_id = endless.launch(instance, job, tmp_path / "at work")
        below = descendants(endless.process.pid)
        began = time.monotonic()
        endless.process.send_signal(signal.SIGTERM)
        assert endless.process.wait(BOUND_SECONDS) == 0, endless.log.read_text()[-3000:]
        took = time.monotonic() - began
        assert took <= GRACE_SECONDS * slowness(), f"ended {took:.1f} s after SIGTERM; Docker had killed it"
        eventually(lambda: not any(map(is_alive, below)), "the processes below it to end")
        run = instance.get_run_by_id(run_id)
        assert run is not None
        assert run.status is dg.DagsterRunStatus.CANCELED


def test_sigterm_ends_one_that_was_started_where_sigint_is_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = CodeServer(tmp_path, ENDLESS)
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        server.wait()
        # It listens a moment before it waits for its end: one that is ended in between has not begun.
        eventually(lambda: server.checked().returncode == 0, lambda: server.log.read_text()[-3000:])
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(BOUND_SECONDS) == 0, server.log.read_text()[-3000:]
    finally:
        server.end()


def test_sigterm_ends_a_run_at_once_which_counts_as_ended_while_its_code_server_goes_on(
    endless: CodeServer, tmp_path: Path
) -> None:
    with dg.DagsterInstance.from_config(str(endless.home)) as instance:
        run_id = endless.launch(instance, endless_runs.waiting, tmp_path / "at work")
        began = time.monotonic()
        # Beside it is a process of Python's that counts semaphores.
        of_the_run = [
            pid
            for pid in descendants(endless.process.pid)
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert of_the_run
        for pid in of_the_run:
            os.kill(pid, signal.SIGTERM)

        def has_ended() -> bool:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.is_finished and not any(map(is_alive, of_the_run))

        eventually(has_ended, "the run to end")
        print(f"the run ended {time.monotonic() - began:.1f} s after SIGTERM")
        assert endless.listens()


def test_the_code_is_in_the_process_itself_and_a_dead_one_answers_no_check(endless: CodeServer) -> None:
    healthy = endless.checked()
    assert (healthy.returncode, healthy.stdout) == (0, "The code location is served.\n"), healthy.stderr
    assert descendants(endless.process.pid) == []
    endless.process.kill()
    endless.process.wait(BOUND_SECONDS)
    dead = endless.checked()
    assert dead.returncode == 1
    assert "does not answer" in dead.stderr


def test_a_code_server_that_could_not_load_its_code_is_not_healthy_although_it_listens(tmp_path: Path) -> None:
    server = CodeServer(tmp_path, "sfcdc_assets_tests.no_such_module")
    try:
        server.wait()
        checked = server.checked()
        assert checked.returncode == 1
        assert "could not be loaded" in checked.stderr
    finally:
        server.end()
