"""A month of a whole org in simulated time: `python -m sfcdc_assets_tests.pipeline.simulation.whole_org_month`.

300 objects are polled and ten are streamed, while the org has weather: requests and streams that fail, floods of
stamps, transactions that stay open, outages, a process that dies. At the end every table must equal the org, every
record that was deleted for good be found, and no entry be open. Batches are applied in this process, without Spark.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.cli.local_dagster.drive import sync_channels
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.long_transactions import LongTransaction
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.lake.maintenance.maintain import maintain_with_settings
from sfcdc_assets.lake.store.poll_notes import read_poll_notes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW_ALL, TICK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.reconciliation.audit import audit
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import (
    CHANNEL,
    EmulatedPipeline,
    assert_same_rows,
    expected_rows,
    ids,
)
from sfcdc_assets_tests.pipeline.entities.many_objects import object_names, objects
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, only_settings_of_tests, served
from sfcdc_assets_tests.pipeline.oracle import without_those_gone
from sfcdc_assets_tests.pipeline.story import unhealed
from sfcdc_assets_tests.run_contexts import run_on
from sfcdc_assets_tests.simulated_clock import SimulatedClock

HOUR, DAY = 3600, 86_400
RECORDS = 20
BUSY_A_DAY, QUIET_A_DAY, STREAMED_A_DAY = 96, 1, 24
"""Transactions of an object in a day."""
WEATHER_A_DAY = 6
OF_REQUESTS = (
    *(RestFault.UNAVAILABLE, RestFault.SERVER_ERROR, RestFault.REQUEST_LIMIT, RestFault.TOO_MANY_REQUESTS),
    *(RestFault.GARBAGE, RestFault.CUT_OFF, RestFault.UNAUTHORIZED),
)
OF_STREAMS = (
    *(Fault.STREAM_RESET, Fault.STREAM_UNAVAILABLE, Fault.STREAM_AUTH_ERROR, Fault.DUPLICATE, Fault.OVERFLOW),
    *(Fault.GARBLED_BODY, Fault.TOKENS_EXPIRED),
)
LAST_SYNCS = 6
AUDITED = 5
"""Polled objects that each night's audit compares, and a streamed one; at twenty requests."""


MAINTAINED_DAYS = 7
"""The nightly job's maintenance is done this seldom: it opens each of 1,900 tables, which takes a minute or two."""


@dataclass(frozen=True)
class WholeOrgMonth:
    """What to do. `seconds`: the interval at which polled objects are asked, and of the sensor's ticks. `minutes`: of
    the machine's time, after which no other day begins."""

    days: int = 30
    polled: int = 300
    busy: int = 10
    streamed: int = 10
    seconds: int = 900
    work_hours: int = 6
    seed: int = 1
    minutes: float = math.inf


@dataclass
class Figures:
    """What it came to. `requests` of each day, first copies left out; `ages`: seconds from a change of a polled object
    to the poll that read it, deletes left out; `found_after`: hours from a delete for good to the row that says so;
    `audited`: records that nightly audits compared, and those of them that had changes `on_their_way`; `packed`: files
    that maintenance made into fewer."""

    transactions: int = 0
    events: int = 0
    weather: Counter[str] = field(default_factory=Counter)
    failed_readings: int = 0
    failed_syncs: int = 0
    requests: list[int] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    found_after: list[float] = field(default_factory=list)
    records: int = 0
    audited: int = 0
    on_their_way: int = 0
    packed: int = 0
    seconds_to_copy: float = 0.0
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{len(self.requests)} days"
        yield f"{self.transactions:,} transactions, {self.events:,} change events; {self.records:,} records at the end"
        weather = ", ".join(f"{count} {name}" for name, count in self.weather.most_common())
        yield f"weather: {weather}; {self.failed_readings} readings and {self.failed_syncs} syncs failed"
        yield f"API requests a day: {sum(self.requests) / len(self.requests):,.0f}, {max(self.requests):,} at most"
        ages = sorted(self.ages)
        p50, p95 = (ages[len(ages) * percent // 100] / 60 for percent in (50, 95))
        yield f"{len(ages):,} changes read: p50 {p50:.1f} min, p95 {p95:.1f} min, {ages[-1] / 60:.0f} min at most"
        after = sorted(self.found_after) or [0.0]
        yield (
            f"{len(self.found_after):,} records deleted for good, all found: p50 {after[len(after) // 2]:.1f} h, "
            f"{after[-1]:.1f} h at most"
        )
        yield f"{self.audited:,} records audited by night, {self.on_their_way:,} of them with changes on their way"
        yield f"{self.packed:,} files packed"
        yield f"{self.seconds_to_copy:.0f} s to copy, {self.seconds:.0f} s in all"


class WholeOrg:
    """The org, its weather, and the process that follows it."""

    def __init__(self, what: WholeOrgMonth, pipeline: EmulatedPipeline, channels: OpenChannels) -> None:
        names = object_names(what.polled + what.streamed)
        self.what, self.pipeline, self.channels = what, pipeline, channels
        self.polled, self.streamed = names[: what.polled], names[what.polled :]
        self.figures, self._of_polls = Figures(), frozenset(self.polled)
        self.dice = Random(f"a month of a whole org:{what.seed}")
        self.waiting: dict[str, deque[int]] = {}
        """By polled object: when records were changed that were not read yet. Not when they were deleted: one that is
        gone for good has no row to be read, and is found by counting (`found_after`)."""
        self._held: list[LongTransaction] = []
        org, seed = pipeline.org, what.seed
        busy = self.polled[: what.busy]
        groups = ((busy, BUSY_A_DAY), (self.polled[what.busy :], QUIET_A_DAY), (self.streamed, STREAMED_A_DAY))
        self._traffic = [
            (TrafficGenerator(org, seed + place, FULL_MIX, of=partial(tuple, each)), len(each) * a_day)
            for place, (each, a_day) in enumerate(groups)
        ]
        org.subscribe_commits(self._committed)

    def _committed(self, transaction: Transaction) -> None:
        self.figures.transactions += 1
        for change in transaction.changes:
            if change.entity in self._of_polls and change.change_type != "DELETE":
                self.waiting.setdefault(change.entity, deque()).append(self.pipeline.org.clock())

    def live(self, seconds: int, *, changes: bool = True) -> None:
        """Let so much time pass, with ticks of the sensor of polled objects."""
        for _ in range(0, seconds, self.what.seconds):
            if changes:
                self._change()
            self.pipeline.org.clock.sleep(self.what.seconds)
            self._tick()

    def _change(self) -> None:
        share = self.what.seconds / DAY
        for traffic, a_day in self._traffic:
            wanted = a_day * share
            count = int(wanted) + (self.dice.random() < wanted % 1)
            if count:
                traffic.run(transactions=count)

    def _tick(self) -> None:
        settings = load_settings()
        warehouse = Warehouse(settings.warehouse)
        try:
            opened = self.channels.of(POLLED, warehouse, settings, partial(ASSETS.connect, warehouse))
            with opened.in_use():
                reading = opened.read(TICK)
        except SfcdcError:
            self._failed(warehouse)
            return
        if reading.failure is not None:
            self._failed(warehouse)
        now = self.pipeline.org.clock()
        for entity, rows in reading.report.events.items():
            if rows:
                self.figures.ages += [(now - at) / 1000 for at in self.waiting.pop(entity, ())]

    def _failed(self, warehouse: Warehouse) -> None:
        """Count a reading that failed for all objects; some may have been read before it did, as the notes say."""
        self.figures.failed_readings += 1
        for entity, note in read_poll_notes(warehouse).items():
            waiting = self.waiting.get(entity, deque())
            while waiting and waiting[0] < note.seen_until_ms:
                self.figures.ages.append((note.asked_at_ms - waiting.popleft()) / 1000)

    def work(self) -> None:
        """Apply what was read, and read and apply what the stream has."""
        for only, channels in (((CHANNEL,), None), ((POLLED,), self.channels)):
            try:
                sync_channels(
                    self.pipeline.instance, until_caught_up=True, report=_nothing, channels=channels, only=only
                )
            except SfcdcError:
                self.figures.failed_syncs += 1

    def audit(self) -> None:
        """Compare some objects with the org as the nightly job does, while changes are on their way: none is an
        error. Raises AssertionError where one is called so."""
        self._change()
        warehouse, chosen = Warehouse(str(self.pipeline.warehouse)), self.dice.sample(self.polled, k=AUDITED)
        channels = dict.fromkeys(chosen, POLLED) | {self.dice.choice(self.streamed): CHANNEL}
        with connect(load_settings()) as connected, Poller(warehouse, connected, math.inf, NOW_ALL) as poller:
            reports = audit(run_on(warehouse, connected), channels, poller, rounds=1)
        now = self.pipeline.org.clock()
        for entity in self.polled:  # all were asked
            self.figures.ages += [(now - at) / 1000 for at in self.waiting.pop(entity, ())]
        found = [str(each) for report in reports for each in report.differences]
        assert not found, found[:5]
        self.figures.audited += sum(report.compared for report in reports)
        self.figures.on_their_way += sum(report.compared_again + len(report.left) for report in reports)

    def maintain(self) -> None:
        """What the nightly job does beside audits."""
        warehouse = Warehouse(str(self.pipeline.warehouse))
        for done in maintain_with_settings(warehouse, load_settings(), self.pipeline.org.clock()):
            assert done.problem is None, done
            self.figures.packed += done.packed

    # -- weather

    def weather(self) -> None:
        """Let one thing happen."""
        dice, server, org = self.dice, self.pipeline.server, self.pipeline.org
        kind = dice.choice(("request", "request", "stream", "stream", "flood", "open transaction", "process", "outage"))
        if kind == "request":
            fault = dice.choice(OF_REQUESTS)
            server.rest_faults.arm(fault, dice.randrange(1, 12))
            kind = f"{kind}: {fault.value}"
        elif kind == "stream":
            stream_fault = dice.choice(OF_STREAMS)
            server.faults.arm(stream_fault)
            kind = f"{kind}: {stream_fault.value}"
        elif kind == "flood":
            org.stamp_all(dice.choice(self.polled))
        elif kind == "open transaction":
            self._open_transaction()
        elif kind == "process":
            self.channels.close()
        else:
            with server.outage():
                self.live(self.what.work_hours * HOUR // 2)
        self.figures.weather[kind] += 1

    def clear(self) -> None:
        """End it."""
        self.pipeline.server.rest_faults.disarm()
        self.pipeline.server.faults.disarm()
        for held in self._held:
            held.commit()
        self._held.clear()

    def _open_transaction(self) -> None:
        entity = self.dice.choice(self.polled[self.what.busy :])
        held = self.pipeline.org.long_transactions.begin()
        held.update(entity, ids(self.pipeline.org, entity)[0], {"Notes__c": f"open {self.dice.random():.6f}"})
        self._held.append(held)


def run(what: WholeOrgMonth, folder: Path, *, tell: bool = False) -> Figures:
    """Live the month. Raises AssertionError where a table differs from the org or an entry is left."""
    started = time.monotonic()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        only_settings_of_tests(patch)
        patch.chdir(folder)
        stack.enter_context(batches_in_this_process())
        names = object_names(what.polled + what.streamed)
        clock = SimulatedClock(None, runs=True)
        org = EmulatedOrg(folder / "org", seed=what.seed, clock=clock, objects=objects(len(names)))
        org.selected_entities = names[what.polled :]
        org.populate(dict.fromkeys(names, RECORDS))
        pipeline = stack.enter_context(served(org, folder / "org", patch))
        patch.setenv("SFCDC_POLL", "Object_*")
        patch.setenv("SFCDC_POLL_SECONDS", str(what.seconds))
        patch.setenv("SFCDC_AUDIT_PERCENT", "0")
        channels = stack.enter_context(OpenChannels(forgotten_seconds=math.inf))
        month = WholeOrg(what, pipeline, channels)
        figures = month.figures
        pipeline.sync()
        clock.sleep(DAY)
        figures.seconds_to_copy = time.monotonic() - started
        for day in range(what.days):
            if time.monotonic() - started > what.minutes * 60:
                break
            _a_day(month)
            figures.requests.append(ApiUsage(org).used())
            if tell:
                print(
                    f"day {day + 1}: {figures.requests[-1]:,} requests, {time.monotonic() - started:.0f} s", flush=True
                )
        _end(month)
        figures.events = pipeline.server.bus.last_number
    figures.seconds = time.monotonic() - started
    return figures


def _a_day(month: WholeOrg) -> None:
    what = month.what
    for _ in range(0, DAY, what.work_hours * HOUR):
        if month.dice.random() < WEATHER_A_DAY * what.work_hours / 24:
            month.weather()
        month.live(what.work_hours * HOUR)
        month.work()
        month.clear()
    month.audit()
    if (len(month.figures.requests) + 1) % MAINTAINED_DAYS == 0:
        month.maintain()


def _end(month: WholeOrg) -> None:
    """A quiet day and two hours, in which what no stamp shows is counted; then all is compared."""
    pipeline, figures = month.pipeline, month.figures
    for _ in range(4):
        month.live(DAY // 4 + HOUR // 2, changes=False)
        month.work()
    for _ in range(LAST_SYNCS):
        if not unhealed(pipeline, *month.polled, *month.streamed):
            break
        month.live(HOUR, changes=False)
        month.work()
    assert not unhealed(pipeline, *month.polled, *month.streamed)
    assert not any(month.waiting.values()), month.waiting
    deleted_at = {
        change.record_id: transaction.commit_timestamp
        for transaction in pipeline.org.transactions()
        for change in transaction.changes
        if change.change_type == "DELETE"
    }
    for entity in (*month.polled, *month.streamed):
        found, expected = pipeline.rows(entity), expected_rows(pipeline.org, entity)
        assert_same_rows(entity, without_those_gone(entity, found, expected), expected)
        figures.records += len(expected)
        if entity in month.polled:
            for each in found.keys() - expected.keys():
                if found[each]["_deleted_reason"] == "hard_deleted":
                    seen = found[each]["_valid_from"].timestamp()
                    figures.found_after.append((seen - deleted_at[each] / 1000) / HOUR)


def _nothing(line: str) -> None:
    """Say nothing."""


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole = WholeOrgMonth()
    parser.add_argument("--days", type=int, default=whole.days)
    parser.add_argument("--polled", type=int, default=whole.polled)
    parser.add_argument("--busy", type=int, default=whole.busy, help="of the polled objects")
    parser.add_argument("--streamed", type=int, default=whole.streamed)
    parser.add_argument("--seconds", type=int, default=whole.seconds, help="between two polls of an object")
    parser.add_argument("--seed", type=int, default=whole.seed)
    parser.add_argument("--work-hours", type=int, default=whole.work_hours, help="between two runs that apply")
    parser.add_argument("--minutes", type=float, default=whole.minutes, help="of the machine; then no day begins")
    what = WholeOrgMonth(**vars(parser.parse_args()))
    print(what, flush=True)
    with tempfile.TemporaryDirectory() as name:
        for line in run(what, Path(name), tell=True).lines():
            print(line)
    print("every table equals the org, no entry is open")


if __name__ == "__main__":
    main()
