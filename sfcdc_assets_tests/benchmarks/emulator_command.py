"""`sfcdc emulator` in a process of its own, as a person starts and stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from dotenv import dotenv_values

from sfcdc_assets.streams.pubsub.credentials import Credentials
from sfcdc_assets_tests.benchmarks.event_server import Served
from sfcdc_assets_tests.benchmarks.served_org import ServedOrg
from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.documentation import ROOT

MOST_SECONDS = 600
_SAYS_IT_SERVES = "Stop it:"


class EmulatorCommand:
    """The command, serving. `started` are the seconds from its start until it said that it serves."""

    def __init__(self, folder: Path, records: int) -> None:
        """Raises `WrongAnswer` if it ends instead."""
        self.folder = folder
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sfcdc_assets.cli", "emulator", "--dir", str(folder), "--records", str(records)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        if not any(line.startswith(_SAYS_IT_SERVES) for line in self._process.stdout):
            raise WrongAnswer(f"sfcdc emulator ended with {self._process.wait()} before it served")
        self.started = time.perf_counter() - begun
        settings = {name: value or "" for name, value in dotenv_values(folder / "org.env").items()}
        self.org = ServedOrg(settings, self._process.pid)
        """Its settings, and what it costs."""
        self.http = requests.Session()
        """Logged in, on one connection."""
        self.http.trust_env, self.http.verify = False, settings["SFCDC_CA_FILE"]
        self.url = settings["SFCDC_INSTANCE_URL"]
        login = {name: settings[f"SFCDC_{name.upper()}"] for name in ("client_id", "client_secret")}
        token = self.post("/services/oauth2/token", data={"grant_type": "client_credentials", **login})["access_token"]
        self.http.headers["Authorization"] = f"Bearer {token}"
        organization = self.get("/services/oauth2/userinfo")["organization_id"]
        self.credentials = Credentials(token, self.url, organization)

    @property
    def pubsub(self) -> Served:
        """Where its events are."""
        return Served(self.org.settings["SFCDC_PUBSUB_ENDPOINT"], Path(self.org.settings["SFCDC_CA_FILE"]))

    def get(self, path: str) -> Any:
        """The answer, from JSON. Raises `WrongAnswer` for an error."""
        return self._answer("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        """The same; `json` or `data` is the body."""
        return self._answer("POST", path, **body)

    def patch(self, path: str, **body: Any) -> Any:
        """The same."""
        return self._answer("PATCH", path, **body)

    def peak_megabytes(self) -> float:
        """The most memory it had until now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def megabytes_on_disk(self) -> float:
        """Of its folder."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file()) / 1e6

    def interrupt(self) -> float:
        """Ctrl-C; the seconds until the process is gone. Raises `WrongAnswer` if that is no orderly end."""
        self.http.close()
        begun = time.perf_counter()
        self._process.send_signal(signal.SIGINT)
        said, _ = self._process.communicate(timeout=MOST_SECONDS)
        seconds = time.perf_counter() - begun
        if self._process.returncode or "Stopped." not in said:
            raise WrongAnswer(f"sfcdc emulator ended with {self._process.returncode}: {said[-500:]}")
        return seconds

    def kill(self) -> None:
        """If it is still there."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _answer(self, method: str, path: str, **body: Any) -> Any:
        answer = self.http.request(method, self.url + path, timeout=MOST_SECONDS, **body)
        if answer.status_code >= 400:
            raise WrongAnswer(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()


@contextmanager
def emulator_command(folder: Path, records: int) -> Iterator[EmulatorCommand]:
    """With so many records of each object, if it is new. It is gone at the end, however it ended."""
    command = EmulatorCommand(folder, records)
    try:
        yield command
    finally:
        command.kill()
