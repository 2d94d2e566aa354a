"""Clients that others wrote, unmodified, subscribe to the emulated Streaming API and see what the bus says: the CometD
project's own for JavaScript, and jsforce. Skipped where npm or its registry is not to be had."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from sfcdc_assets.emulator.cometd.client_session import CometdTiming
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.server import EmulatorServer
from sfcdc_assets_tests.peers.npm_packages import npm_packages

SCRIPTS = Path(__file__).parent / "cometd_js"
BOUND_SECONDS = 60
CHANNEL = "/data/ChangeEvents"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm_packages(SCRIPTS, tmp_path_factory.mktemp("npm"))


class Client:
    """A process that prints what it sees."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self.process = process
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()

    @property
    def replay_ids(self) -> list[int]:
        return [int(line.removeprefix("event ")) for line in self.lines if line.startswith("event ")]

    def wait_for_events(self, replay_ids: list[int]) -> None:
        deadline = monotonic() + BOUND_SECONDS
        with self._changed:
            while set(self.replay_ids) != set(replay_ids):
                assert self._changed.wait(deadline - monotonic()), (self.lines, replay_ids)


@contextmanager
def running(folder: Path, script: str, server: EmulatorServer, token: str, place: int) -> Iterator[Client]:
    environment = {**os.environ, "TOKEN": token, "NODE_EXTRA_CA_CERTS": str(server.ca_file)}
    process = subprocess.Popen(
        ["node", script, f"{server.rest_url}/cometd/60.0", CHANNEL, str(place)],
        cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("script", ["subscribe.mjs", "jsforce.mjs"])
def test_a_client_that_others_wrote_replays_follows_and_survives_that_it_is_forgotten(
    scripts: Path, tmp_path: Path, script: str
) -> None:
    org = EmulatedOrg(seed=3)
    org.selected_entities = ["Account"]
    org.populate(2)
    account = str(next(iter(org.records("Account")))["Id"])

    def update() -> None:
        with org.transaction() as work:
            work.update("Account", account, {"Phone": str(org.last_commit_number)})

    with EmulatorServer(org, directory=tmp_path, cometd_timing=CometdTiming(timeout=5)) as server:

        def published() -> list[int]:
            events = server.bus.read({"Account"}, after=0, max_events=100, max_bytes=10**9).events
            return [event.counter for event in events]

        token = server.sessions.issue(org.users.integration)
        update()
        update()
        with running(scripts, script, server, token, -2) as client:
            client.wait_for_events(published())
            update()
            client.wait_for_events(published())
            for fault in (Fault.COMETD_UNKNOWN_CLIENT, Fault.COMETD_BUSY):
                server.faults.arm(fault)
                update()
                client.wait_for_events(published())
            assert client.replay_ids == published(), "each once, in order"
        with running(scripts, script, server, token, published()[1]) as client:
            client.wait_for_events(published()[2:])
    org.close()
