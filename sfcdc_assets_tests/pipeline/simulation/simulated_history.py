"""Simulated histories of an org, each by its seed, with the pipeline that follows it.

The org is real, so are its sockets, the client and the tables; no Dagster run is made and no job of Spark, because
they cost seconds. One clock, that the history itself moves, is everybody's: a seed gives the same history each time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.apply import batch_events
from sfcdc_assets.apply.catch_up import Applied, ApplyListener, CatchUp
from sfcdc_assets.apply.record_cut import note_cut
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.entities.entities import entity_channels, entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.pack import SMALLEST_BYTES
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.poll_timeouts import until_settled
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.take_snapshot import ToCopy, take_snapshot
from sfcdc_assets.org_reads.watermark import Watermarks
from sfcdc_assets.reconciliation.rebuild import applying, channel_of, rebuild_entity
from sfcdc_assets.salesforce.channel_members import STANDARD_CHANNEL
from sfcdc_assets.salesforce.view_all import ViewAllMissing
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.streams.checkpoint import LATEST
from sfcdc_assets_tests.pipeline.commits import Died, another_memory, before_commit, die
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.simulation.administrator import Administrator, name_of
from sfcdc_assets_tests.pipeline.simulation.beside_change_events import BesideChangeEvents, NothingBeside, polled_object
from sfcdc_assets_tests.pipeline.simulation.consumers import Consumers
from sfcdc_assets_tests.pipeline.simulation.diary import Diary, HiddenFields, SnapshotTaken
from sfcdc_assets_tests.pipeline.simulation.history_plan import POLLED_OBJECT, BatchPlan
from sfcdc_assets_tests.pipeline.simulation.org_history import OrgHistory
from sfcdc_assets_tests.pipeline.simulation.other_clients import OtherClients
from sfcdc_assets_tests.run_contexts import run_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

BEGUN = 1_735_689_600_000
"""2025-01-01T00:00:00Z."""
SYNCS = 12
"""The most it takes until nothing is open: a failed read pauses, and so does what waits for it."""
PAUSE_MS = 4_000_000
QUIET_DAYS, DAY_MS = 3, 86_400_000
NIGHTS = 0.25
"""Share of the rounds that are followed by maintenance of our own."""
DEATHS, MEETINGS = 0.35, 0.25
"""Shares of the rounds, nights and rebuilds in which the process dies before some commit, and another one goes on; or
another one does all of its work before some commit of the first."""
COMMITS = 60
"""How many a round is taken to have, before one has been counted."""


class SimulatedHistory(ApplyListener):
    """An org, and its pipeline. The org goes on while a run is at work."""

    def __init__(
        self,
        plan: BatchPlan,
        org: EmulatedOrg,
        clock: SimulatedClock,
        server: EmulatorServer,
        warehouse: Warehouse,
        spark: SparkSession | None,
    ) -> None:
        self.plan = plan
        self.org = org
        self.clock = clock
        self.server = server
        self.warehouse = warehouse
        self.diary = Diary()
        self._connected: OrgConnection
        self._poller: Poller
        self._spark = spark
        self._dice = Random(f"life and its pipeline:{plan.seed}")
        self._night = Random(f"nights:{plan.seed}")
        self._fate = Random(f"deaths and meetings:{plan.seed}")
        self._administrator = Administrator(plan, org, server.bus, clock, self.diary, self.step, self._hang_up)
        self._others = OtherClients(warehouse, plan.seed, self.diary)
        self._commits: dict[str, int] = {}
        """How many the last round, night or rebuild had in which nothing happened."""
        self._silent: dict[tuple[str, int], int] = {}
        """Entity and number of a snapshot -> how many silent changes there were before it was begun."""
        self._beside = BesideChangeEvents(org, plan.seed, server) if plan.has_others else NothingBeside()
        self._simulated = OrgHistory(
            org, plan.seed, plan.mix, bus=server.bus, holes=plan.holes, without=(POLLED_OBJECT,)
        )
        self._channels = [plan.channel, *self._beside.channels]
        self._restless = 0
        self._is_reading = False
        self._known: Collection[str] = ()
        self.consumers = Consumers(warehouse, plan.seed)
        self._open = False
        """Whether the last run left an entry, so that there is something to do for the next one."""

    def live(self) -> None:
        """All of it: a round of steps and a sync, a few times. In the last round every entity changes once more, so
        that its newest schema is known."""
        for number, steps in enumerate(self.plan.steps, 1):
            self.step(steps)
            is_last = number == len(self.plan.steps)
            if is_last:
                self.give_everything_back()
                self._touch_every_entity()
            self._restless = 0 if is_last else self._dice.choice((0, 0, 1, 3))
            with self._started_as(self.plan.starts[min(number, 2) - 1]):
                self._with_fate("round", self.sync, (self.sync, self.night, self._others.compact, self._rebuild_all))
            self._others.come()
            self.consumers.come()
            if self._night.random() < NIGHTS:
                self._with_fate("night", self.night, (self.sync,))

    def give_everything_back(self) -> None:
        """Put on the channel what is off it, remove filters, give back rights; a record that was hidden from a client
        that could not know it shows by its next change."""
        self._administrator.give_everything_back()
        for entity in {each.entity for each in self.diary.unseen if each.are_hidden}:
            self._touch(entity, [str(record["Id"]) for record in self.org.records(entity)])

    def night(self) -> None:
        """Maintenance; small files count as full, so that there is more than one."""
        full, at_once = self._night.choice((2, 5, 500)) * SMALLEST_BYTES, len(self.diary.meetings)
        for done in maintain(self.warehouse, Retention(7), self.clock(), full):
            assert done.problem is None, done
            assert done.left is None or len(self.diary.meetings) > at_once, done
            self.diary.packed += done.packed

    @contextmanager
    def process(self) -> Iterator[None]:
        """A process with connections and a memory of its own; the one that was before goes on after it."""
        before = (self._connected, self._poller, self._known, self._open) if hasattr(self, "_poller") else None
        with another_memory(), connect(load_settings()) as org, Poller(self.warehouse, org, self.plan.settle) as poller:
            self._connected, self._poller, self._known, self._open = org, poller, (), False
            try:
                yield
            finally:
                if before is not None:
                    self._connected, self._poller, self._known, self._open = before

    @contextmanager
    def _started_as(self, start: str) -> Iterator[None]:
        """With a setting of where a stream is begun that is not known."""
        if start == load_settings().replay_preset:
            yield
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SFCDC_REPLAY_PRESET", start)
                with self.process():
                    yield

    def _with_fate(self, name: str, work: Callable[[], None], others: Sequence[Callable[[], None]]) -> None:
        """Do a work that may be run again, some commit of which may be the end of a process, or find another one at
        work on the same tables. In the end it is done."""
        fate, number = self._fate.random(), self._fate.randint(1, self._commits.get(name, COMMITS))
        if fate < DEATHS:
            with suppress(Died), self.process(), before_commit(number, die) as commits:
                work()
            self.diary.deaths += [f"{name}: {commits.happened_at}"] if commits.happened_at else []
        elif fate < DEATHS + MEETINGS:
            other = self._fate.choice(others)
            with before_commit(number, partial(self._meet, name, other)) as commits:
                try:
                    work()
                except ConcurrentCommit:
                    self.diary.retries += 1
        with before_commit(0, die) as commits:
            work()
        if fate >= DEATHS + MEETINGS:
            self._commits[name] = max(1, commits.begun)

    def _meet(self, name: str, other: Callable[[], None]) -> None:
        self.diary.meetings.append(f"{name}: {other.__name__}")
        with self.process():
            other()

    def sync(self) -> None:
        """What the sensor's ticks and their runs do, until nothing is left to do."""
        for _ in range(SYNCS):
            self._note_start()
            self.clock.advance(self._dice.choice((1_000, 3_000)))
            self._beside.land(self._poller)
            known = entity_channels(self.warehouse, self._channels, (), self._connected.members)
            if self._open or known.keys() != self._known:
                self._take_snapshots(entity_states(self.warehouse, known, self.clock()))
            self._known = known.keys()
            self._open = False
            self._catch_up(known)
            # An entry whose pause is not over is no work, and nobody hears of it.
            states = entity_states(self.warehouse, known, self.clock())
            self._open |= any(each.suspects_open for each in states if not self._waits_for_a_person(each))
            if not self._open:
                self._note_cut(known)
                self.consumers.come()
                if not any(each.has_work for each in entity_states(self.warehouse, known, self.clock())):
                    return
            self.clock.advance(self._dice.choice((0, PAUSE_MS)))
        raise AssertionError("it does not come to an end")

    def _waits_for_a_person(self, state: EntityState) -> bool:
        """It is off the channel, or its records are not shown."""
        return (state.off_channel and state.rests) or not self.org.view_all.of(state.entity)

    def _note_start(self) -> None:
        """A stream that is begun at LATEST brings nothing of before."""
        if load_settings().replay_preset == LATEST:
            self._beside.miss(self.warehouse)
        known = RawEvents.open(self.warehouse).checkpoint(self.plan.channel)
        if not known.is_known and load_settings().replay_preset == LATEST and not self.diary.losses:
            self.diary.left_out = self.org.last_commit_number

    def _note_cut(self, known: dict[str, str]) -> None:
        """As a tick without work does: rows that were read from the org just now may be ahead of the others until all
        that is older has landed."""
        report = self._poller.land(self.plan.channel, replace(until_settled(self.plan.settle), through_ms=self.clock()))
        note_cut(self.warehouse, known, self.plan.channel, report.complete_position, report.complete_through_ms)

    def hear_of_losses(self) -> None:
        """What the org did to the stream last may not have been heard of: one process asks for its instance every ten
        minutes, a new one at once."""
        if self.diary.losses:
            with self.process():
                self.sync()

    def rebuild(self) -> None:
        """`sfcdc rebuild` of every entity, of some after their layers were removed by hand."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_events, "MOST_EVENTS", self.plan.rebuilt_at_once)
            for entity in self.warehouse.entities("current_state"):
                if self._dice.random() < 0.3:
                    remove_layers(self.warehouse, entity)
                self._with_fate("rebuild", partial(self._rebuild, entity), (self.sync, self.night))
        self._open = True
        self.sync()

    def assert_the_others_are_equal(self) -> None:
        """After three days, in which what was deleted for good is found by counting. Raises AssertionError."""
        if not self.plan.has_others:
            return
        for _ in range(QUIET_DAYS):
            self.clock.advance(DAY_MS)
            self.sync()
        self._beside.assert_equal(self.warehouse)

    def _rebuild_all(self) -> None:
        for entity in self.warehouse.entities("current_state"):
            self._rebuild(entity)

    def _rebuild(self, entity: str) -> None:
        channel = channel_of(self.warehouse, entity, self._channels)
        rebuild_entity(self.warehouse, entity, channel, applying(self._run(self.warehouse), entity, channel))

    def drained(self, report: LandingReport) -> None:
        """The org does not wait for what comes after."""
        steps, self._restless = self._restless, 0
        self._is_reading = True
        self.step(steps)
        self._is_reading = False

    def _hang_up(self) -> None:
        """The streams of the process end, and what is on its way on them is not taken."""
        self._beside.miss(self.warehouse)
        self._poller.__exit__(ConnectionError, None, None)

    def brought_up_to_date(self, applied: Applied) -> None:
        """What is suspect goes on in the next run."""
        self._open |= bool(applied.report.open_suspects)

    def step(self, steps: int) -> None:
        """Let the org live on."""
        for _ in range(steps):
            self.clock.advance(self._dice.choice((0, 0, 300, 1_000, 2_500, 60_000)))
            self.diary.kinds.append(self._simulated.step().kind)
            self._note_hidden()
            self._administrator.act(while_reading=self._is_reading)
            self._beside.live_on()

    def _note_hidden(self) -> None:
        for entity in self.org.definitions:
            now = self.org.field_security.hidden(entity)
            before = next((each.names for each in reversed(self.diary.hidden) if each.entity == entity), frozenset())
            if now != before:
                self.diary.hidden.append(HiddenFields(entity, self.org.last_commit_number, now))

    def _touch_every_entity(self) -> None:
        self.clock.advance(1_000)
        for entity, definition in self.org.definitions.items():
            ids = [str(record["Id"]) for record in self.org.records(entity)]
            if definition.field("OwnerId") is not None:
                self._touch(entity, ids[:1])

    def _touch(self, entity: str, ids: Iterable[str]) -> None:
        """Change records."""
        for record_id in ids:
            for owner in (self.org.users.automated_process, self.org.users.integration):
                with self.org.transaction() as work:
                    work.update(entity, record_id, {"OwnerId": owner})

    def _take_snapshots(self, states: Iterable[EntityState]) -> None:
        run = self._run(self.warehouse)
        watermarks = Watermarks(run, self._poller)
        for state in [state for state in states if state.needs_snapshot]:
            with self._noted(state.entity), suppress(ViewAllMissing):  # the other entities go on
                take_snapshot(
                    run,
                    ToCopy(state.entity, state.channel),
                    lambda position, channel=state.channel: watermarks.of(channel, position),
                )

    @contextmanager
    def _noted(self, entity: str) -> Iterator[None]:
        """Note the snapshot that is taken, also where its last commit is the last thing that a process does; one that
        is gone on with was begun by another."""
        silent = len(self.org.silent_changes())
        try:
            yield
        finally:
            taken = Snapshots.open(self.warehouse, entity)
            progress = taken.progress() if taken else None
            if progress is not None:
                number = progress.snapshot_number
                before = self._silent.setdefault((entity, number), silent)
                is_noted = any((each.entity, each.number) == (entity, number) for each in self.diary.snapshots)
                if progress.complete and not is_noted:
                    self.diary.snapshots.append(
                        SnapshotTaken(
                            entity,
                            number,
                            progress.position,
                            progress.started_at_ms,
                            self.clock(),
                            frozenset(progress.fields),
                            before,
                        )
                    )

    def _catch_up(self, known: dict[str, str]) -> None:
        run, waits = self._run(self.warehouse), self.plan.waits
        CatchUp(run, self._poller, known, known, self, every_entity=False, waits=waits).run()

    def _run(self, tables: Warehouse) -> OrgRunContext:
        visible, spark = self.plan.visibility, lambda: self._spark
        return run_on(tables, self._connected, spark, visibility_seconds=visible, describe_seconds=0.0)


@contextmanager
def opened(
    plan: BatchPlan, root: Path | str, authority: Path, spark: SparkSession | None = None
) -> Iterator[SimulatedHistory]:
    """A history that has not begun. `root`: of the warehouse; `authority`: the folder of the servers' certificates."""
    clock = SimulatedClock(BEGUN)
    objects = (*plan.objects, polled_object()) if plan.has_others else plan.objects
    org = EmulatedOrg(clock=clock, seed=plan.seed, objects=objects, settings=plan.settings)
    org.selected_entities = [each for each in org.selected_entities if each != POLLED_OBJECT]
    try:
        org.populate(plan.records)
        if plan.channel != STANDARD_CHANNEL:
            org.channels.create(name_of(plan.channel))
            for entity in org.definitions:
                if entity in org.selected_entities:
                    org.channels.add_member(name_of(plan.channel), entity)
        server = EmulatorServer(org, directory=authority)
        with server, clock.followed(server), pytest.MonkeyPatch.context() as patch:
            for name, value in server.client_environment().items():
                patch.setenv(name, value)
            patch.setenv("SFCDC_REPLAY_PRESET", plan.starts[0])
            patch.setenv("SFCDC_POLL", POLLED_OBJECT if plan.has_others else "")
            patch.setattr(batch_events, "MOST_EVENTS", plan.most_events)
            simulated = SimulatedHistory(plan, org, clock, server, Warehouse(str(root)), spark)
            with simulated.process():
                yield simulated
    finally:
        org.close()
