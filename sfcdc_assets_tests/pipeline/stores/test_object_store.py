"""A warehouse in an object store: tasks bring what opens it, and nothing shows it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.apply import attempt, spark_job
from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entities
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.job_layout import inputs_of
from sfcdc_assets.apply.spark_job import Outcome, PackedBatches, outcomes
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.object_store import BUCKET, SECRET, object_store
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Entities
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import job_of, worked_off
from sfcdc_assets_tests.run_contexts import run_on
from sfcdc_assets_tests.store_login import log_in

ANOTHERS = {"AWS_ACCESS_KEY_ID": "of somebody else", "AWS_SECRET_ACCESS_KEY": "of somebody else"}
NAMES = ("Here__c", "There__c")


@pytest.fixture
def entities(monkeypatch: pytest.MonkeyPatch) -> Iterator[Entities]:
    """Two in a store that this process has the credentials of, with events to apply."""
    with object_store() as store:
        log_in(store.environment, monkeypatch)
        made = Entities(Warehouse(f"s3://{BUCKET}/warehouse"), NAMES, 5)
        made.day_zero()
        made.land(2)
        yield made


def applied(entities: Entities, spark: SparkSession | None) -> None:
    """Bring them up to date; raises what failed."""
    wanted = [ToApply(name, CHANNEL) for name in NAMES]
    found = apply_entities(run_on(entities.warehouse, spark=lambda: spark), wanted)
    for report in found.values():
        if isinstance(report, Exception):
            raise report
    assert [report.events for report in found.values() if isinstance(report, ApplyReport)] == [20, 20]


def in_another_process(_: object, batches: Sequence[EntityBatch]) -> list[Outcome]:
    """What tasks do, in a process that has nothing of this one's environment, and credentials that open nothing."""
    batches = [replace(batches[0], is_shuffled=True), *batches[1:]]  # the first one with a shuffle, others without
    job = pickle.dumps(job_of(batches))
    root = Path(spark_job.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name], input=job, stdout=subprocess.PIPE, check=True, env=ANOTHERS, cwd=root
    )
    return outcomes(batches, pickle.loads(done.stdout))


def tasks() -> None:
    """The other process's part."""
    sys.stdout.buffer.write(pickle.dumps(worked_off(*pickle.loads(sys.stdin.buffer.read()), Random(0))))


def test_tasks_read_and_write_by_the_credentials_they_bring_and_not_by_those_of_their_process(
    entities: Entities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "apply_events", in_another_process)
    applied(entities, None)
    assert entities.differences() == []


def test_workers_of_a_session_that_was_started_without_credentials_work_by_those_that_tasks_bring(
    spark: SparkSession, entities: Entities
) -> None:
    applied(entities, spark)
    assert entities.differences() == []


def test_nothing_shows_the_credentials_that_tasks_bring(entities: Entities, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def looked_at(_: object, batches: Sequence[EntityBatch]) -> list[Outcome]:
        packed = PackedBatches.of(batches)
        assert SECRET.encode() in pickle.dumps(packed)
        shown.extend([repr(packed), str(packed), repr(packed[0]), repr(batches), repr(batches[0].task)])
        shown.append(str([share.to_pylist() for share in inputs_of(batches, 2)]))
        return [ValueError("nothing is applied") for _ in batches]

    monkeypatch.setattr(attempt, "apply_events", looked_at)
    with pytest.raises(ValueError, match="nothing is applied"):
        applied(entities, None)
    assert len(shown) == 6
    assert not [each for each in shown if SECRET in each]


if __name__ == "__main__":
    tasks()
