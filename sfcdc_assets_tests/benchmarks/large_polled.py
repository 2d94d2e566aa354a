"""A poll of a large object: 1,000 changed records of 8 million, from the org's answer to the commit.

The table is that of `large_entity`, fed by polls. The answer is written here, page by page as REST gives it: what the
org itself takes for it is one request for each 2,000 records. Batches are applied in this process, so that its CPU is
all there is, whatever else the machine does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.store.poll_notes import PollNote
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.object_poll import ObjectPoll
from sfcdc_assets.landing.seen_records import SeenRecords
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.salesforce.composite_query import QueryPage
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.benchmarks.field_kinds import Kind
from sfcdc_assets_tests.benchmarks.large_entity import ENTITY, LargeEntity, record_id
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.benchmarks.table_contents import checksums
from sfcdc_assets_tests.pipeline.entities.many_objects import objects
from sfcdc_assets_tests.pipeline.fixtures import batches_in_this_process, only_settings_of_tests, served
from sfcdc_assets_tests.simulated_clock import SimulatedClock

ROUNDS, PAGE = 3, 2_000
SECONDS = 60.0
"""What a poll may take: less than the interval of any sensor."""
STAMPS = ("LastModifiedDate", "SystemModstamp")


class LargePolled(LargeEntity):
    """With the stamps by which it is asked for what changed."""

    def __init__(self, warehouse: Warehouse, rows: int, connected: OrgConnection) -> None:
        super().__init__(warehouse, None, rows, channel=POLLED)
        self._connected, self._note, self._position = connected, PollNote(), 0
        self._asked_at = datetime.now(UTC).replace(microsecond=0)

    def _kinds_of(self, fields: int) -> dict[str, Kind]:
        return {**super()._kinds_of(fields), **dict.fromkeys(STAMPS, Kind("datetime", "long", "DateTime", 0))}

    def answer(self, numbers: Sequence[int], dice: np.random.Generator) -> list[dict[str, Any]]:
        """Return these records with other values, as REST gives them, in the order of a poll."""
        self._asked_at += timedelta(hours=1)
        stamp = f"{self._asked_at - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S.000+0000}"
        values = dice.integers(0, 10**9, (len(numbers), len(self.names)))
        found: list[dict[str, Any]] = []
        for at, number in enumerate(sorted(numbers)):
            row = {name: self._rest(name, int(value)) for name, value in zip(self.names, values[at], strict=True)}
            found.append({"Id": record_id(number), **row, **dict.fromkeys(STAMPS, stamp)})
        return found

    def poll(self, answer: Sequence[dict[str, Any]]) -> None:
        """What a reading does with an answer, as a process that has read nothing before, and the run after it."""
        poll = ObjectPoll(self.warehouse, self._connected, ENTITY, self._note, SeenRecords())
        self._position += 1
        landed = poll.land(QueryPage(tuple(answer), None, self._asked_at), lambda: self._position)
        if landed.rows != len(answer):
            raise WrongAnswer(f"{landed.rows} of {len(answer)} records were news")
        self._note = landed.note
        self.apply()

    def _rest(self, name: str, number: int) -> Any:
        value = self._value(name, number)
        if self.kinds[name].described != "datetime":
            return value
        return f"{datetime.fromtimestamp(value / 1000, UTC):%Y-%m-%dT%H:%M:%S.000+0000}"


def measure(quick: bool) -> Sequence[Figure]:
    """Records among the newest, and anywhere."""
    rows, count, rounds = (20_000, 100, 1) if quick else (8_000_000, 1_000, ROUNDS)
    dice = np.random.default_rng(31)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch, batches_in_this_process():
        only_settings_of_tests(patch)
        patch.chdir(name)
        folder = Path(name)
        with served(
            EmulatedOrg(folder / "org", clock=SimulatedClock(None, runs=True), objects=objects(1)),
            folder / "org",
            patch,
        ):
            patch.setenv("SFCDC_POLL", ENTITY)
            with connect(load_settings()) as connected:
                of = LargePolled(Warehouse(str(folder / "large")), rows, connected)
                for where, chosen in (("the newest", of.recent), ("all", of.anywhere)):
                    case = f"{count:,} changed records among {where} of {rows:,}"
                    seconds, cpu = zip(*(_round(of, chosen(count, dice), dice) for _ in range(rounds)), strict=True)
                    figures.append(Figure(case, "s", seconds, goal=Goal(SECONDS)))
                    figures.append(Figure(case, "s of CPU", cpu))
    return figures


def _round(of: LargePolled, numbers: Sequence[int], dice: np.random.Generator) -> tuple[float, float]:
    """Poll once; returns seconds and seconds of CPU. Raises `WrongAnswer` where a row differs from what was read, or
    another one from what it was."""
    answer = of.answer(numbers, dice)
    ids = pl.Series([row["Id"] for row in answer])
    others = pl.col("Id").is_in(ids.implode()).not_()
    before, ended = checksums(of.current_rows().filter(others), of.names), of.superseded().select(pl.len())
    count = ended.collect().item()
    began, cpu = time.monotonic(), time.process_time()
    of.poll(answer)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    of.check(before, checksums(of.current_rows().filter(others), of.names))
    found = of.current_rows().filter(~others).select("Id", *of.names).sort("Id").collect()
    for name in of.names:
        expected = [row[name] for row in answer]
        if of.kinds[name].described == "datetime":
            expected = [datetime.strptime(each, "%Y-%m-%dT%H:%M:%S.000%z") for each in expected]
        if found[name].to_list() != expected:
            raise WrongAnswer(f"{name} is not as it was read")
    if of.superseded().select(pl.len()).collect().item() < count + len(answer):
        raise WrongAnswer("versions that ended are missing")
    of.rows = max(of.rows, max(numbers) + 1)
    of.clean()
    return seconds, cpu


STAGE = Stage(
    "A poll of a large object",
    measure,
    "Every field of the records that were read, and every row and field of all others.",
    "Reading and encoding the key-range files that hold a changed record: anywhere in the table, nearly all of them.",
)
