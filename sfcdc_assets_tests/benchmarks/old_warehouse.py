"""What a warehouse costs that is 20,000 commits old, beside one of 100 commits: ticks, a plan, `sfcdc status`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer
from sfcdc_assets_tests.lake.maintenance.old_age import (
    LOG_HOURS,
    WORK,
    YOUNG,
    a_busy_day,
    a_day_passes,
    age,
    measured,
    night,
)
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, quiet
from sfcdc_assets_tests.pipeline.stream import CHANNEL

COMMITS, BATCHES = 20_000, 10_000
YOUNG_ONE = f"{YOUNG} commits"


def measure(quick: bool) -> Sequence[Figure]:
    """In the morning after a night of maintenance, and on the evening before, of a day lived as it is deployed."""
    commits, batches = (1_000, 500) if quick else (COMMITS, BATCHES)
    with tempfile.TemporaryDirectory() as folder:
        root, young, evening = (Path(folder) / name for name in ("made", "young", "evening"))
        root.mkdir()
        with pytest.MonkeyPatch.context() as patch, quiet(root, patch, records=20) as pipeline:
            pipeline.sync()
            for number in range(3):
                pipeline.update(pipeline.ids()[0], Phone=str(number), Description="a line\n" * 50)
                pipeline.catch_up()
            warehouse = pipeline.warehouse
        age(warehouse, YOUNG, YOUNG)
        shutil.copytree(warehouse.root, young)
        first = commits // 7
        age(warehouse, first - YOUNG, max(1, first * batches // commits))
        a_day_passes(warehouse)
        night(warehouse, LOG_HOURS)
        a_busy_day(warehouse, commits - first, batches - first * batches // commits)
        shutil.copytree(warehouse.root, evening)
        night(warehouse, LOG_HOURS)
        _compare(warehouse, commits)
        old = {"in the morning": warehouse, "on the evening": Warehouse(str(evening))}
        rounds = [
            (measured(Warehouse(str(young))), {when: measured(each) for when, each in old.items()})
            for _ in range(1 if quick else 3)
        ]
    return [
        Figure(
            f"{what}, {when}",
            "ms",
            [now[when][what][1] for _, now in rounds],
            {YOUNG_ONE: [then[what][1] for then, _ in rounds]},
            Goal(1.3, of=YOUNG_ONE),
        )
        for when in old
        for what in WORK
    ]


def _compare(warehouse: Warehouse, commits: int) -> None:
    """The old warehouse says what was written on its logs: it has all events, and all are applied."""
    status = status_of(warehouse, load_settings())
    (of_channel,) = [each for each in status.channels if each.channel == CHANNEL]
    (of_entity,) = [each for each in status.entities if each.entity == ENTITY]
    if of_channel.position < commits or of_entity.applied != of_channel.position or status.damaged:
        raise WrongAnswer(f"{of_channel}, {of_entity}, damaged: {status.damaged}")


STAGE = Stage(
    "20,000 commits old",
    measure,
    "What `status` tells of the old warehouse with the number of events and batches that were written on its logs.",
    "Landing lists the log's folder twice inside of delta-rs, so it follows the commits of the last two hours (1,700 "
    "of 20,000 a day: a quarter of a tick with news), and what waits for packing, 500 small files at most, is gone "
    "through once for each commit.",
)
