"""The pipeline of one object, step by step: real sockets and tables, no Dagster, batches applied in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.open_suspect import OpenSuspect
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import until_settled
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.take_snapshot import SnapshotListener, SnapshotReport, ToCopy, take_snapshot
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.reconciliation.verify import open_drift_suspects
from sfcdc_assets.reconciliation.verify_report import VerifyReport
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.fixtures import session_of_tests
from sfcdc_assets_tests.run_contexts import run_on

SETTLE = 1.0


class Copy:
    """Account, as it is fed by a channel."""

    def __init__(self, pipeline: EmulatedPipeline, org: OrgConnection, poller: Poller, channel: str) -> None:
        self.channel = channel
        self.pipeline = pipeline
        self.emulated = pipeline.org
        self.warehouse = Warehouse(str(pipeline.warehouse))
        self.org = org
        self._poller = poller

    @property
    def run(self) -> OrgRunContext:
        """One that asks for a session of Spark."""
        return run_on(self.warehouse, self.org, session_of_tests)

    @property
    def run_at_once(self) -> OrgRunContext:
        """One to which REST shows every change at once, and which describes nothing."""
        return run_on(self.warehouse, self.org, session_of_tests, visibility_seconds=0.0, describe_seconds=10**9)

    def snapshot(self, listener: SnapshotListener | None = None) -> SnapshotReport:
        """Take one, taken at a watermark of the stream's tip."""
        position = self.land()
        wanted = ToCopy("Account", self.channel)
        return take_snapshot(self.run, wanted, lambda least: max(least, position), listener)

    @property
    def now(self) -> int:
        """The time of the org and of its client, epoch ms."""
        return clock.now_ms()

    def later(self, seconds: float) -> None:
        """Let time pass."""
        clock.sleep(seconds)

    def land(self) -> int:
        """Land all that was committed until now; returns the position."""
        timeouts = replace(until_settled(SETTLE), through_ms=self.now)
        return self._poller.land(self.channel, timeouts).position

    def catch_up(self) -> None:
        """A run, after which all that was committed before is in the tables."""
        self.land()
        channels = {"Account": self.channel}
        CatchUp(self.run_at_once, self._poller, channels, channels, ApplyListener(), every_entity=True).run()

    def living(self) -> set[str]:
        return {key for key, row in self.pipeline.rows("Account").items() if not row["_is_deleted"]}

    def refusals(self) -> list[OpenSuspect]:
        ledger = Ledger.open(self.warehouse, "Account")
        return [suspect for suspect in ledger.open_suspects() if suspect.refuses_a_read] if ledger else []

    def state(self) -> EntityState:
        (state,) = entity_states(self.warehouse, {"Account": self.channel}, self.now)
        return state

    def purge(self, count: int) -> set[str]:
        """Remove records as an admin's hard delete does, which raises no event."""
        gone = ids(self.emulated, "Account")[:count]
        with self.emulated.database.transaction():
            for record_id in gone:
                self.emulated.store.purge(self.emulated.definitions["Account"], record_id, self.emulated.clock())
        return set(gone)

    def audit(self) -> VerifyReport:
        (report,) = audit(self.run_at_once, {"Account": self.channel}, self._poller, rounds=0)
        open_drift_suspects(self.warehouse, report, self.now)
        return report


@contextmanager
def connected(pipeline: EmulatedPipeline, channel: str = CHANNEL) -> Iterator[Copy]:
    warehouse = Warehouse(str(pipeline.warehouse))
    with connect(load_settings()) as org, Poller(warehouse, org, SETTLE) as poller:
        yield Copy(pipeline, org, poller, channel)
