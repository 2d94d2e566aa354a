"""`dagster dev` as a child process: it is told when its UI answers, and it ends with everything that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from random import SystemRandom
from types import TracebackType

from sfcdc_assets.runtime.errors import PortInUseError, SfcdcError
from sfcdc_assets.runtime.native_memory import SETTINGS

HOST = "127.0.0.1"
GRACE_SECONDS = 8.0
"""How long Dagster's processes may take to end after they were asked to; then they are killed. A run that is killed
leaves tables that the next one completes (guarantee 2)."""

_QUIET = {
    # `dagster dev` advises the `dg` tool, a package of its own that this project does not need, at each start. And
    # Dagster warns about a parameter of its own each time it loads our sensors, which do not use it.
    "PYTHONWARNINGS": "ignore:Function `dev_command` is superseded,ignore:Parameter `owners` of initializer",
    "DAGSTER_DISABLE_TELEMETRY": "yes",
}


PORTS = range(20_000, 32_000)
"""Below those that kernels give to sockets which ask for none in particular (from 32768 on with Linux, from 49152 on
elsewhere): Dagster binds the port seconds later, and until then no other process is given it by chance."""
TRIES = 100


def free_port(wanted: int = 0) -> int:
    """Return the port, or any free one of `PORTS` for 0. Raises `PortInUseError` when nothing can listen on it."""
    error: OSError | None = None
    for port in [wanted] if wanted else SystemRandom().sample(PORTS, TRIES):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return port
            except OSError as in_use:
                error = in_use
    raise PortInUseError("the Dagster UI (--port)", wanted) from error


class UnguardedUi(SfcdcError):
    """Dagster's webserver answers pages of other sites."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            f"The Dagster UI on {url} was ended: it answers requests of other sites, so any web page could "
            "change your Dagster instance. The installed Dagster starts its webserver otherwise than the releases that "
            "sfcdc_assets was tested with; install one of those (`pip install --upgrade sfcdc_assets`)."
        )


class DagsterUi:
    """`dagster dev` over a workspace file; a context manager that ends it and its children.

    It runs in a session of its own, so that Ctrl+C reaches only us and the end is in one order, and in its home folder,
    where no `dagster.yaml` of another folder can be meant.
    """

    def __init__(
        self, workspace: Path, home: Path, port: int, environment: Mapping[str, str], log_format: str = "text"
    ) -> None:
        self.url = f"http://{HOST}:{port}"
        self._command = [
            sys.executable,
            "-m",
            "sfcdc_assets.webserver",
            "dev",
            "--parent",
            str(os.getpid()),
            "-w",
            str(workspace),
            "-h",
            HOST,
            "-p",
            str(port),
        ]
        self._command += ["--log-level", "warning"]
        self._command += ["--log-format", "json"] if log_format == "json" else []
        self._home = home
        self._environment = {**SETTINGS, **environment, **_QUIET, "DAGSTER_HOME": str(home)}

    def __enter__(self) -> DagsterUi:
        self._process = subprocess.Popen(
            self._command, env=self._environment, cwd=self._home, start_new_session=True, stdin=subprocess.DEVNULL
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.running:
            self._process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + GRACE_SECONDS
        while self._anything_left() and time.monotonic() < deadline:
            time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    @property
    def running(self) -> bool:
        """Whether `dagster dev` has not ended by itself."""
        return self._process.poll() is None

    def answers(self) -> bool:
        """Return whether the UI answers requests. Raises `UnguardedUi` when it also answers those of other sites."""
        if self._status({}) != HTTPStatus.OK:
            return False
        if self._status({"Host": "another.site.invalid"}) != HTTPStatus.FORBIDDEN:
            raise UnguardedUi(self.url)
        return True

    def _status(self, headers: Mapping[str, str]) -> int | None:
        try:
            with urllib.request.urlopen(
                urllib.request.Request(f"{self.url}/server_info", headers=dict(headers)), timeout=2
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def _anything_left(self) -> bool:
        """Return whether a process of the session's group lives. The first of them is reaped here: a zombie would
        count."""
        self._process.poll()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True
