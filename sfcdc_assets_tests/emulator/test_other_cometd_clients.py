"""Clients that others wrote, unmodified, subscribe to the emulated Streaming API and see what the bus says: the CometD
project's own for JavaScript, jsforce, and aiosfstream-ng (Python). Skipped where a registry is not to be had."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from sfcdc_assets.emulator.cometd.client_session import CometdTiming
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.peers.npm_packages import npm_packages
from sfcdc_assets_tests.peers.pip_client import pip_client

HERE = Path(__file__).parent
AIOSFSTREAM = ("aiosfstream-ng==0.7.5", "aiocometd-ng==0.5.6")
CHANNEL = "/data/ChangeEvents"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["subscribe.mjs", "jsforce.mjs", "aiosfstream.py"])
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sequence[str | Path]:
    if request.param.endswith(".py"):
        return (pip_client(*AIOSFSTREAM) / "python", HERE / "cometd_python" / request.param)
    return ("node", npm_packages(HERE / "cometd_js", tmp_path_factory.mktemp("npm")) / request.param)


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
def running(command: Sequence[str | Path], server: EmulatorServer, token: str, place: int) -> Iterator[Client]:
    authority = str(server.ca_file)
    environment = {**os.environ, "TOKEN": token, "NODE_EXTRA_CA_CERTS": authority, "SSL_CERT_FILE": authority}
    process = subprocess.Popen(
        [*command, f"{server.rest_url}/cometd/60.0", CHANNEL, str(place)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()


def test_a_client_that_others_wrote_replays_follows_and_survives_that_it_is_forgotten(
    command: Sequence[str | Path], tmp_path: Path
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
        with running(command, server, token, -2) as client:
            client.wait_for_events(published())
            update()
            client.wait_for_events(published())
            # A busy server's advice is to wait for 2,000 milliseconds, which aiosfstream-ng takes for seconds.
            busy = () if str(command[-1]).endswith(".py") else (Fault.COMETD_BUSY,)
            for fault in (Fault.COMETD_UNKNOWN_CLIENT, *busy):
                server.faults.arm(fault)
                update()
                client.wait_for_events(published())
            assert client.replay_ids == published(), "each once, in order"
        with running(command, server, token, published()[1]) as client:
            client.wait_for_events(published()[2:])
    org.close()
