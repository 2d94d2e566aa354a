"""Events of all kinds, with faults and kills: the tables are what the org says that was published, in its order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.store.pending_events import read_pending, remove_pending
from sfcdc_assets.lake.tables.lost_checkpoints import lost_checkpoints
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.pending import READINGS
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

pytestmark = pytest.mark.slow

ORDERS, GENERIC, TOPIC = "/event/Order_Event__e", "/u/Load", "/topic/Phones"
CHANNELS = (ORDERS, GENERIC, TOPIC)
FAULTS = (
    Fault.STREAM_RESET,
    Fault.STREAM_UNAVAILABLE,
    Fault.STREAM_AUTH_ERROR,
    Fault.COMETD_UNKNOWN_CLIENT,
    Fault.COMETD_LOST_COOKIE,
    Fault.COMETD_UNAUTHORIZED,
    Fault.COMETD_RESET,
    Fault.COMETD_CUT,
)
QUICK = PollTimeouts(first_answer=5.0, quiet=0.3, budget=30.0)
SLICE = 100


class Load:
    """An org that many events are made in, and what they said."""

    def __init__(self, server: EmulatorServer, org: EmulatedOrg, root: Path, seed: int) -> None:
        self.server, self.org, self.root, self.dice = server, org, root, random.Random(seed)
        self.pushed: list[str] = []
        self.phones: list[str] = []
        topics = server.cometd.topics
        self._channel = topics.channels.create({"Name": GENERIC}).id
        topics.push_topics.create({"Name": "Phones", "Query": "SELECT Id, Phone FROM Account", "ApiVersion": 52.0})
        self._account = str(next(iter(org.records("Account")))["Id"])

    def make(self, count: int) -> None:
        """Events of every kind; one in twenty is published twice, and a stream breaks when it has mended."""
        channels, faults = self.server.cometd.topics.channels, self.server.faults
        if not any(faults.armed(each) for each in FAULTS):
            faults.arm(self.dice.choice(FAULTS))
        for _ in range(count // 4):
            if self.dice.random() < 0.2:
                faults.arm(Fault.DUPLICATE)
            number = str(len(self.pushed))
            for half in ("a", "b"):
                self.server.publisher.publish("Order_Event__e", {"Order_Number__c": f"{number}{half}"})
            channels.push(self._channel, [{"payload": number}], [])
            self.pushed.append(number)
            with self.org.transaction() as work:
                work.update("Account", self._account, {"Phone": number})
            self.phones.append(number)
        self.server.bus.wake()

    def commits(self) -> int:
        """Of all tables."""
        return sum(1 for _ in self.root.glob("*/*/_delta_log/*.json"))

    def rows(self, channel: str) -> list[dict[str, Any]]:
        return landed_rows(Warehouse(str(self.root)), channel)


@contextmanager
def load(folder: Path, seed: int) -> Iterator[Load]:
    with ExitStack() as stack:
        org = EmulatedOrg(seed=seed, settings=OrgSettings(daily_event_deliveries=10**7))
        stack.callback(org.close)
        org.populate({"User": 1, "Account": 1})
        server = stack.enter_context(EmulatorServer(org, directory=folder / "org"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        settings = {"SFCDC_WAREHOUSE": str(folder / "warehouse"), "SFCDC_CHANNELS": ",".join(CHANNELS)}
        for name, value in {**server.client_environment(), **settings}.items():
            patch.setenv(name, value)
        trust_only_the_org(patch)
        yield Load(server, org, folder / "warehouse", seed)


@contextmanager
def landing_process(transport: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One that is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "SFCDC_TRANSPORT": transport}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "sfcdc_assets_tests.pipeline.landing.landing_process"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def land_the_rest(channels: Sequence[str]) -> None:
    """What the killed processes left, until a reading is sent nothing. After a change of protocol it is sent all there
    is once more, of which nothing is new at first."""
    settings = load_settings()
    with connect(settings) as org:
        for channel in channels:
            reader = ChannelReader(Warehouse(settings.warehouse), org, channel, 1.0)
            ends, quiet = time.monotonic() + BOUND_SECONDS, 0
            while quiet < 2 and time.monotonic() < ends:
                quiet = 0 if reader.land(QUICK).deliveries else quiet + 1
            reader.drop()


def follow_the_remedy(root: Path) -> None:
    """Who killed the processes knows what ended them, and removes the notes of channels that are not asked any more.
    Whether one is among them depends on where the kills hit."""
    warehouse = Warehouse(str(root))
    for channel in CHANNELS:
        note = read_pending(warehouse, channel)
        if note is not None and not note.events and note.readings >= READINGS:
            remove_pending(warehouse, channel)


def await_commits(made: Load, process: subprocess.Popen[bytes], count: int) -> None:
    """Until the process has committed so often, and for a moment of random length that it may be in the midst of
    anything at."""
    eventually(lambda: made.commits() >= count or process.poll() is not None, f"commit {count}")
    assert process.poll() is None
    time.sleep(made.dice.random() / 20)


def run(folder: Path, events: int, kills: int, seed: int = 3) -> None:
    """So many events, so many kills; the protocol of platform events changes with each of them."""
    with load(folder, seed) as made:
        for kill in range(kills):
            transport = ("pubsub", "cometd")[kill % 2]
            with landing_process(transport, folder / "landing.log") as process:
                before = made.commits()
                made.make(SLICE)
                await_commits(made, process, before + 2)
                slices = events // kills // SLICE
                dies_at = made.dice.randrange(slices // 2, slices) or 1
                for number in range(1, slices):
                    before = made.commits()
                    made.make(SLICE)
                    if number == dies_at:
                        await_commits(made, process, before + 1)
                        process.send_signal(signal.SIGKILL)
            follow_the_remedy(made.root)
        made.server.faults.disarm()
        land_the_rest(CHANNELS)
        check(made)


def check(made: Load) -> None:
    """Nothing is lost, nothing is doubled, and everything is in the order of the stream."""
    published = made.server.publisher.published()
    orders = made.rows(ORDERS)
    assert [row["event_id"] for row in orders] == [each.event_id for each in published]
    assert [row["Order_Number__c"] for row in orders] == [(each.values or {})["Order_Number__c"] for each in published]
    assert [row["payload"] for row in made.rows(GENERIC)] == made.pushed
    assert [row["Phone"] for row in made.rows(TOPIC)] == made.phones
    for channel in CHANNELS:
        found = made.rows(channel)
        breaks = {lost.position for lost in lost_checkpoints(Warehouse(str(made.root)), channel)}
        positions = {row["position"] for row in found}
        assert len(positions) == len(found)
        assert positions | breaks == set(range(1, max(positions | breaks) + 1))
        assert all(row["_problem"] is None for row in found)


def test_a_few_hundred_events_and_a_kill(tmp_path: Path) -> None:
    run(tmp_path, events=400, kills=1)


@pytest.mark.soak
def test_twenty_thousand_events_of_all_kinds_with_faults_and_ten_kills(tmp_path: Path) -> None:
    run(tmp_path, events=20_000, kills=10)
