"""A month of an org and of the pipeline that follows it, in simulated time: real gRPC, REST and Delta.

Three channels of one object each: a busy one, a quiet one, and one that is silent for a week. What a code server does
between ticks is here too: a reader for each channel, whose subscription stays open, and the work that its ticks find.
Jobs of Spark are done in this process, and no Dagster run is made: both cost seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
from deltalake import DeltaTable

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.apply.record_cut import note_cut
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.salesforce.view_all import ViewAllMissing
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import clean_up_logs, tables, vacuum
from sfcdc_assets_tests.pipeline.stream import SETTLE, Stream
from sfcdc_assets_tests.run_contexts import run_on

HOUR, DAY = 3600, 86_400
TICK_SECONDS = 100
"""Seconds between two ticks while nothing happens: a reader that is not asked for two minutes is closed."""
BUSY, QUIET, SILENT = "Account", "Contact", "Lead"
CHANNELS = {entity: f"/data/{entity}ChangeEvent" for entity in (BUSY, QUIET, SILENT)}
SILENT_DAYS = range(10, 18)
PAIRS = 10
"""So many pairs of accounts are only ever changed together, in one transaction."""
STREAM_FAULTS = (Fault.STREAM_RESET, Fault.STREAM_UNAVAILABLE, Fault.STREAM_AUTH_ERROR, Fault.SILENT_STREAM)


@dataclass
class Figures:
    """What happened in the month."""

    ticks: int = 0
    published: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failed_ticks: int = 0
    lost_checkpoints: list[tuple[float, str]] = field(default_factory=list)
    """Day and channel."""
    looks: int = 0
    cuts: int = 0
    snapshots: Counter[str] = field(default_factory=Counter)
    refused_snapshots: int = 0
    """Snapshots that were not taken because the permission was gone."""
    resumes: int = 0
    """How often a stream was begun again, or might have been, while its last replay id was not known to be complete:
    its events come and are charged a second time."""
    published_unheard: int = 0
    """Events published while nobody read for longer than they are kept."""


class Month(ApplyListener):
    """The org, its weather and its pipeline."""

    def __init__(self, stream: Stream, seed: int) -> None:
        self.stream = stream
        self.figures = Figures()
        self._dice = Random(f"a month:{seed}")
        self._began = stream.clock()
        self._readers: dict[str, ChannelReader] = {}
        self._reports: dict[str, LandingReport] = {}
        self._has_work = True
        """Whether anything was landed or completed since the last run."""
        self._ids = {entity: [str(record["Id"]) for record in stream.org.records(entity)] for entity in CHANNELS}
        self._next_pair = 0

    @property
    def has_work(self) -> bool:
        """Whether a tick would ask for a run."""
        return self._has_work

    @property
    def day(self) -> float:
        """Days since the beginning."""
        return (self.stream.clock() - self._began) / 1000 / DAY

    # -- the process that ticks

    def start(self) -> None:
        """A code server starts."""
        for channel in CHANNELS.values():
            reader = ChannelReader(self.stream.warehouse, self.stream.connected, channel, SETTLE)
            self._readers[channel] = self.stream.adopt(reader)

    def kill(self) -> None:
        """It dies; what it had taken and not landed is gone with it."""
        for channel, reader in self._readers.items():
            self._count_resume(channel)
            self.stream.disown(reader)
        self._readers.clear()

    def tick(self) -> None:
        """One tick of each channel."""
        self.stream.wait_until_the_org_is_idle()
        something = False
        for channel, reader in self._readers.items():
            self.figures.ticks += 1
            before = self._reports.get(channel)
            try:
                report = reader.land(TICK)
            except PubSubUnavailable:
                self.figures.failed_ticks += 1
                continue
            if report.lost_checkpoint:
                self.figures.lost_checkpoints.append((self.day, channel))
            something |= report.count > 0 or before is None or before.complete_position < report.complete_position
            self._reports[channel] = report
        self._has_work |= something

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with ticks."""
        while seconds > 0:
            step = min(seconds, TICK_SECONDS)
            self.stream.pass_time(step)
            seconds -= step
            if self._readers:
                self.tick()

    def settle(self) -> None:
        """Ticks of every five seconds until the last transaction is complete."""
        for _ in range(4):
            self.pass_time(5)

    def work(self) -> None:
        """What runs do that the ticks ask for, with a session of their own: snapshots first, then the events; and the
        tick after it, the cut."""
        self._has_work = False
        with connect(load_settings()) as connected:
            self._run(connected)
        self.pass_time(20)
        self.note_cuts()

    def _run(self, connected: OrgConnection) -> None:
        stream = self.stream
        run = run_on(stream.warehouse, connected, visibility_seconds=5.0, describe_seconds=900.0)
        through = {channel: report.complete_through_ms for channel, report in self._reports.items()}
        landed = LandedOnly(stream.warehouse, through)
        entities = dict(CHANNELS)
        for state in entity_states(stream.warehouse, entities, stream.clock()):
            if state.needs_snapshot:
                self._snapshot(run, state, landed)
        CatchUp(run, landed, entities, entities, self, every_entity=False).run()

    def note_cuts(self) -> None:
        """What a tick does when nothing is left to do."""
        for channel, report in self._reports.items():
            warehouse = self.stream.warehouse
            position, through = report.complete_position, report.complete_through_ms
            noted = note_cut(warehouse, dict(CHANNELS), channel, position, through)
            self.figures.cuts += noted.cut is not None

    def _snapshot(self, run: OrgRunContext, state: EntityState, landed: LandedOnly) -> None:
        watermarks, wanted = Watermarks(run, landed), ToCopy(state.entity, state.channel, state.entity_suspect or 0)
        try:
            take_snapshot(run, wanted, lambda position: watermarks.of(state.channel, position))
        except ViewAllMissing:
            self.figures.refused_snapshots += 1
            self._has_work = True
        else:
            self.figures.snapshots[state.entity] += 1

    # -- the org

    def burst(self, count: int) -> None:
        """Transactions of the busy object: single records, and pairs that belong together."""
        for _ in range(count):
            token = f"{self.stream.clock()}-{self._dice.random():.6f}"
            if self._dice.random() < 0.4:
                self.change_a_pair(token)
            else:
                self._update(BUSY, self._dice.randrange(2 * PAIRS, len(self._ids[BUSY])), {"Fax": token[:30]})

    def change_a_pair(self, token: str) -> None:
        """Two records, two events, one transaction."""
        first = 2 * (self._next_pair % PAIRS)
        self._next_pair += 1
        with self.stream.org.transaction() as work:
            work.update(BUSY, self._ids[BUSY][first], {"Phone": token[:30]})
            work.update(BUSY, self._ids[BUSY][first + 1], {"Phone": token[:30], "Fax": token[-10:]})
        self.figures.published[BUSY] += 2

    def overflow(self) -> None:
        """A transaction of which only an overflow event says something: the object is to be read again."""
        self.stream.server.faults.arm(Fault.OVERFLOW)
        self._update(BUSY, 2 * PAIRS, {"Fax": "overflow"})

    def trickle(self, entity: str) -> None:
        """One transaction of a quiet object."""
        self._update(entity, self._dice.randrange(len(self._ids[entity])), {"Phone": str(self.stream.clock())})

    def _update(self, entity: str, number: int, values: dict[str, object]) -> None:
        with self.stream.org.transaction() as work:
            work.update(entity, self._ids[entity][number], values)
        self.figures.published[entity] += 1

    def weather(self) -> None:
        """One thing that happens to streams."""
        fault = self._dice.choice((*STREAM_FAULTS, Fault.STREAM_PAUSE, Fault.LATE_ANSWER, Fault.UNAVAILABLE))
        self.figures.faults[fault.value] += 1
        if fault in STREAM_FAULTS:
            for channel in self._readers:
                self._count_resume(channel)
        if fault is Fault.STREAM_PAUSE:
            self.stream.pause(after=1, seconds=self._dice.choice((3, 7, 9)))
            self.change_a_pair(f"paused {self.stream.clock()}")
        else:
            self.stream.server.faults.arm(fault)
        self.settle()
        self.stream.server.faults.disarm()

    def _count_resume(self, channel: str) -> None:
        """A stream may be begun again now; if its last replay id is open, what has that comes once more."""
        checkpoint = RawEvents.open(self.stream.warehouse).checkpoint(channel)
        self.figures.resumes += checkpoint.resume.open_id is not None

    # -- others

    def maintain(self) -> None:
        """An outside Delta client cleans up the logs and vacuums, as of the org's time."""
        clean_up_logs(self.stream.root, self.stream.clock() / 1000)
        for table in tables(self.stream.root):
            vacuum(table)

    def look(self) -> None:
        """A reader at the newest consistent cut: of each pair both records, or none, have a change."""
        cut = latest_cut(self.stream.warehouse, CHANNELS[BUSY])
        if cut is None:
            return
        table = DeltaTable(self.stream.warehouse.uri(f"current_state/{BUSY}"))
        if table.version() != cut.tables[f"current_state/{BUSY}"]:
            table.load_as_version(cut.tables[f"current_state/{BUSY}"])
        rows = pa.table(table.scan(columns=["Id", "Phone"])).to_pylist()
        phones = {row["Id"]: row["Phone"] for row in rows}
        ids = self._ids[BUSY]
        for number in range(0, 2 * PAIRS, 2):
            first, second = phones[ids[number]], phones[ids[number + 1]]
            assert first == second, (self.day, number, first, second)
        self.figures.looks += 1


def live(month: Month, days: int = 30) -> None:
    """The whole month."""
    dice = Random("when what happens")
    stream = month.stream
    for number in range(PAIRS):
        month.change_a_pair(f"pair {number}")
    month.start()
    for day in range(days):
        maintained = day in (9, 19, 29)
        for hour in range(24):
            if 8 <= hour < 18 and hour % 2 == 0:
                month.burst(dice.randrange(20))
            if hour == 12 and dice.random() < 0.8:
                month.trickle(QUIET)
            if hour == 13 and day not in SILENT_DAYS:
                month.trickle(SILENT)
            if dice.random() < 0.12:
                month.weather()
            if (day, hour) == (14, 3):
                stream.server.bus.move()
            if (day, hour) == (17, 9):
                stream.org.view_all.withdraw()
            if (day, hour) == (17, 10):
                month.overflow()
            if (day, hour) == (18, 9):
                stream.org.view_all.give_back()
            month.settle()
            if month.has_work and hour % 4 == 0:
                month.work()
            if hour % 3 == 0:
                month.look()
            month.pass_time(HOUR - 60)
        if maintained:
            month.maintain()
        if day == 4:
            _service_is_down(month, 50)
        if day == 21:
            _process_is_down(month, 80)
    month.settle()
    for _ in range(3):
        month.work()
        month.pass_time(60)
    month.look()
    stream.wait_until_the_org_is_idle()


def _service_is_down(month: Month, hours: int) -> None:
    """The service cannot be reached; the org goes on, and ticks fail."""
    for channel in CHANNELS.values():
        month._count_resume(channel)
    with month.stream.server.outage():
        for _ in range(hours):
            month.burst(1)
            month.pass_time(HOUR)
    month.pass_time(60)
    month.settle()


def _process_is_down(month: Month, hours: int) -> None:
    """Nobody reads the streams for longer than events are kept."""
    month.kill()
    before = month.figures.published.total()
    for _ in range(hours):
        month.burst(1)
        month.stream.pass_time(HOUR)
    month.figures.published_unheard = month.figures.published.total() - before
    month.start()
    month.settle()


def seconds_since(began: float) -> str:
    """For the figures."""
    return f"{time.monotonic() - began:.0f} s"
