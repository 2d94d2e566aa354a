"""The org that is copied: six objects that change three times a second, and when each transaction was committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator

ENTITIES = ("Account", "Contact", "Lead", "Opportunity", "Case", "Task")
RECORDS = 2000
"""Of each object."""
CHANGES_A_SECOND = 3.0
SEED = 7


@dataclass
class Commits:
    """Of one object: its transactions in their order, and when (epoch s) each was committed."""

    numbers: dict[str, int] = field(default_factory=dict)
    moments: list[float] = field(default_factory=list)

    def note(self, transaction_key: str, now: float) -> None:
        """One more."""
        self.numbers[transaction_key] = len(self.moments)
        self.moments.append(now)


class FollowedOrg:
    """An org behind its sockets; traffic flows between `traffic.set()` and `clear()`."""

    def __init__(self, org: EmulatedOrg, server: EmulatorServer) -> None:
        self.org, self.server = org, server
        self.commits = {entity: Commits() for entity in ENTITIES}
        self.changes = 0
        self.flows = threading.Event()
        self._generator = TrafficGenerator(org, SEED, bus=server.bus, of=lambda: org.selected_entities)
        self._ends = threading.Event()
        org.subscribe_commits(self._note)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """While entered, traffic can flow."""
        thread = threading.Thread(target=self._run, daemon=True, name="traffic")
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def make_suspects(self, count: int) -> None:
        """So many changes raise no event of their own but a gap: their records are to be read from the org."""
        self.org.faults.arm(Fault.INTERNAL_ERROR, times=count)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ends.wait(max(0.0, due - time.monotonic())):
            before = self.changes
            if self.flows.is_set():
                self._generator.step()
            due = max(due, time.monotonic() - 1.0) + max(1, self.changes - before) / CHANGES_A_SECOND

    def _note(self, transaction: Transaction) -> None:
        now = time.time()
        for entity in {change.entity for change in transaction.changes if not change.is_silent} & self.commits.keys():
            self.commits[entity].note(transaction.transaction_key, now)
        self.changes += len(transaction.changes)


@contextmanager
def followed_org(folder: Path) -> Iterator[FollowedOrg]:
    """A new one."""
    org = EmulatedOrg(folder, seed=SEED)
    try:
        org.selected_entities = list(ENTITIES)
        org.populate(dict.fromkeys(ENTITIES, RECORDS))
        with EmulatorServer(org, directory=folder) as server:
            yield FollowedOrg(org, server)
    finally:
        org.close()
