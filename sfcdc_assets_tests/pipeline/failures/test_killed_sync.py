"""A sync that is killed while it polls, lands, reads pages, decodes, merges or commits is completed by the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.failures.killed_sync import Moment, SyncProcess, moments

SEED = 20
KILLS = [
    ("polling", 1),
    ("receiving", 90),
    ("landing", 2),
    ("landed", 2),
    ("reading pages", 1),
    ("keeping pages", 2),
    ("reading pages", 2),
    ("keeping pages", 3),
    ("decoding", 1),
    ("merging", 1),
    ("committing", 2),
    # In this order up to here, because a snapshot is taken once. While there are tables, in any order:
    ("committing", 1),
    ("landing", 1),
    ("polling", 1),
    ("merging", 1),
    ("receiving", 40),
    ("landed", 2),
    ("committing", 2),
    ("decoding", 1),
    ("landing", 2),
]
"""What is killed, and after how many more files, commits, events or processes. Each costs the start of a process, most
that of a JVM; `make test` dies within a process instead (`apply/test_crashes.py`, `apply/test_commit_point.py`)."""
EVENTS_BETWEEN = (20, 90)
RATE = 15.0
"""Transactions a second that go on whatever happens to the sync."""


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_sync_killed_at_any_moment_completes_to_the_right_rows(
    make_pipeline: Callable[..., EmulatedPipeline], tmp_path: Path
) -> None:
    print(f"seed {SEED}")
    dice = Random(SEED)
    pipeline = make_pipeline("Account", "Contact", records=110)
    counts = moments(pipeline.server, pipeline.warehouse)
    made = TrafficGenerator(pipeline.org, SEED, bus=pipeline.server.bus)
    going_on = TrafficGenerator(pipeline.org, SEED + 1)
    log = tmp_path / "sync.log"
    going_on.start(RATE)
    try:
        for name, more in KILLS:
            made.run(events=dice.randint(*EVENTS_BETWEEN))
            assert SyncProcess(log).kill_at(Moment(name, counts[name], more)), (name, more, log.read_text()[-2000:])
    finally:
        going_on.stop()

    pipeline.sync()
    pipeline.assert_equal_to_the_org()
    positions = sorted(event["position"] for event in pipeline.scan("raw_events"))
    assert positions == list(range(1, pipeline.server.bus.last_number + 1))
    assert len({event["event_id"] for event in pipeline.scan("raw_events")}) == len(positions)
