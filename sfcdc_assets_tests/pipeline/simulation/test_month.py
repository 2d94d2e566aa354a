"""A month in a few minutes: nothing lost, nothing doubled, no checkpoint lost but by an outage that outlasts the
retention, no delivery paid for twice but where a stream was begun again, and each commit is a step of the model."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets_tests.model.relation import Followed
from sfcdc_assets_tests.model.table_trace import recorded
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.memory_folder import memory_folder
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import with_roots_read_once, without_spark
from sfcdc_assets_tests.pipeline.simulation.month import CHANNELS, Month, live, seconds_since
from sfcdc_assets_tests.pipeline.stream import stream

__all__ = ["no_settings_but_the_tests_own"]

SEED = 11


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_month_of_weather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed {SEED}")
    without_spark(monkeypatch, Random(SEED))
    with_roots_read_once(monkeypatch)
    began, commits = time.monotonic(), Followed()
    with memory_folder(tmp_path) as folder, stream(folder, entities=tuple(CHANNELS), seed=SEED) as opened:
        month = Month(opened, SEED)
        with recorded(commits):
            live(month)
        figures = month.figures
        print(figures, seconds_since(began), f"followed: {dict(commits.counts)}")
        for entity in CHANNELS:
            table = DeltaTable(str(opened.root / "current_state" / entity))
            rows = {row["Id"]: row for row in pa.table(table.scan()).to_pylist()}
            assert_same_rows(entity, rows, expected_rows(opened.org, entity))
        published, delivered = figures.published.total(), opened.delivered
        event_ids = [row["event_id"] for row in opened.landed()]
    expired, again = published - len(set(event_ids)), len(event_ids) - len(set(event_ids))
    repeated = delivered - len(event_ids)
    print(
        f"published {published}, delivered {delivered}: {repeated} a second time to {figures.resumes} streams that were"
    )
    print(
        f"begun again; in the outage of 80 hours {expired} expired, and {again} came again from the earliest event on"
    )
    assert 0 <= repeated <= figures.resumes
    assert 0 < expired < figures.published_unheard
    assert again <= figures.published_unheard + figures.resumes
    assert commits.counts["Landed"] > 100
    assert commits.counts["CutNoted"]
    assert figures.looks > 200
    assert figures.refused_snapshots > 0
    # By the move to another instance, and by the outage of 80 hours.
    moved = [channel for day, channel in figures.lost_checkpoints if 16 < day < 17]
    outlasted = [channel for day, channel in figures.lost_checkpoints if 25 < day < 29]
    assert sorted(moved) == sorted(CHANNELS.values()), figures.lost_checkpoints
    assert sorted(outlasted) == sorted(CHANNELS.values()), figures.lost_checkpoints
    assert len(figures.lost_checkpoints) == len(moved) + len(outlasted), figures.lost_checkpoints
