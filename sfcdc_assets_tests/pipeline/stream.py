"""One channel of an emulated org, and the warehouse it is landed into: no Spark and no Dagster, one simulated clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import POLL, TICK, PollTimeouts, until_settled
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets_tests.eventually import eventually
from sfcdc_assets_tests.simulated_clock import SimulatedClock
from sfcdc_assets_tests.trusted_authority import trust_only_the_org

CHANNEL = "/data/ChangeEvents"
SETTLE = 10.0


class Stream:
    """An org, its sockets, a client and a warehouse."""

    def __init__(
        self,
        org: EmulatedOrg,
        clock: SimulatedClock,
        server: EmulatorServer,
        connected: OrgConnection,
        root: Path | str,
    ) -> None:
        self.org = org
        self.clock = clock
        self.server = server
        self.connected = connected
        self.root = root
        self.warehouse = Warehouse(str(root))
        self.accounts = [str(record["Id"]) for record in org.records("Account")]
        self._open: list[ChannelReader] = []

    # -- the org

    def update(self, *accounts: int, **values: object) -> None:
        """One transaction: the same change of so many accounts (by number)."""
        values = values or {"Phone": str(self.clock())}
        with self.org.transaction() as work:
            for number in accounts:
                work.update("Account", self.accounts[number], values)

    def siblings(self, *accounts: int) -> None:
        """One transaction whose one event comes as one for each record, all with one replay id."""
        self.server.faults.arm(Fault.ENRICHED)
        self.update(*accounts)

    def pause(self, after: int, seconds: float) -> None:
        """Let the stream pause once, after so many events."""
        self.server.faults.arm(Fault.STREAM_PAUSE, after=after, seconds=str(seconds))

    def pass_time(self, seconds: float) -> None:
        """Let time pass for everybody, step by step, so that the org does all that falls into it."""
        end = self.clock() + round(seconds * 1000)
        while (now := self.clock()) < end:
            due = self.server.service.next_due()
            self.clock.advance(end - now if due is None or due <= now else min(end, due) - now)
            self.wait_until_the_org_is_idle()

    def wait_until_the_org_is_idle(self) -> None:
        """Until no stream has anything to say at this moment, and what was said has arrived."""
        service = self.server.service

        def is_idle() -> bool:
            due = service.next_due()
            is_quiet = due is None or due > self.clock()
            are_begun = service.subscribed_streams >= sum(reader.is_open for reader in self._open)
            # What a stream sent that has ended counts on the client's side only.
            return is_quiet and are_begun and service.responses_sent <= sum(reader.responses for reader in self._open)

        eventually(is_idle, "the org's streams to come to rest")

    # -- the client

    def poll(self, timeouts: PollTimeouts = POLL) -> LandingReport:
        """One reading with a subscription of its own, of whose end the org has heard."""
        with Poller(self.warehouse, self.connected, SETTLE, timeouts) as poller:
            report = poller.land(CHANNEL)
        self.wait_until_the_org_has_hung_up()
        return report

    def wait_until_the_org_has_hung_up(self) -> None:
        """Until it has no stream but those of open readers: before it hears of an end, it sends and charges on."""
        eventually(
            lambda: self.server.service.open_streams <= sum(reader.is_open for reader in self._open),
            "the org to end the streams that were closed",
        )

    def poll_until_settled(self) -> LandingReport:
        return self.poll(until_settled(SETTLE))

    def reader(self) -> ChannelReader:
        """A reader whose subscription stays open until the test ends."""
        reader = ChannelReader(self.warehouse, self.connected, CHANNEL, SETTLE)
        return self.adopt(reader)

    def adopt(self, reader: ChannelReader) -> ChannelReader:
        """A reader whose responses are waited for, and which is dropped at the end."""
        self._open.append(reader)
        return reader

    def disown(self, reader: ChannelReader) -> None:
        """Drop a reader now."""
        self._open.remove(reader)
        reader.drop()
        self.wait_until_the_org_has_hung_up()

    def tick(self, reader: ChannelReader) -> LandingReport:
        """A tick that meets all that was sent before it."""
        self.wait_until_the_org_is_idle()
        return reader.land(TICK)

    # -- looking

    def checkpoint(self) -> StreamCheckpoint:
        return RawEvents.open(self.warehouse).checkpoint(CHANNEL)

    def landed(self) -> list[dict[str, Any]]:
        """Rows of raw_events in the order of their positions."""
        table = DeltaTable(Warehouse(str(self.root)).uri("raw_events"))
        return sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["position"])

    def records_landed(self) -> list[str]:
        """Ids of the records that the landed events name, in order."""
        return [record_id for row in self.landed() for record_id in row["record_ids"]]

    def ids(self, *accounts: int) -> list[str]:
        return [self.accounts[number] for number in accounts]

    @property
    def delivered(self) -> int:
        """Deliveries that the org has charged."""
        return self.server.meter.total

    def close(self) -> None:
        for reader in self._open:
            reader.drop()


@contextmanager
def stream(
    folder: Path,
    *,
    records: int = 40,
    entities: Sequence[str] = ("Account",),
    settings: OrgSettings | None = None,
    seed: int = 5,
    warehouse: str | None = None,
) -> Iterator[Stream]:
    """A channel of a new org that has said nothing yet. `warehouse`: in place of a folder beside the org's."""
    root = warehouse or folder / "warehouse"
    clock = SimulatedClock()
    org = EmulatedOrg(clock=clock, seed=seed, settings=settings or OrgSettings())
    with ExitStack() as stack:
        stack.callback(org.close)
        org.selected_entities = list(entities)
        org.populate(records)
        server = stack.enter_context(EmulatorServer(org, directory=folder / "org"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**server.client_environment(), "SFCDC_WAREHOUSE": str(root)}.items():
            patch.setenv(name, value)
        trust_only_the_org(patch)
        stack.enter_context(clock.followed(server))
        connected = stack.enter_context(connect(load_settings()))
        opened = Stream(org, clock, server, connected, root)
        stack.callback(opened.close)
        yield opened
