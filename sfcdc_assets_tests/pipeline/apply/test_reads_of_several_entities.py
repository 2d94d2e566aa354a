"""What is read back of several entities is applied in one job of Spark, and one of them that fails stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sfcdc_assets.apply import attempt
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.spark_job import Outcome
from sfcdc_assets.cli.local_dagster.local_runs import RunFailed
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.jobs.run_config import SYNC
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import gap, unhealed

BOTH = ["Account", "Contact"]


class Jobs:
    """The entities of each job. Those in `failing_at_once` fail in each, those in `failing` in all but their first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: list[list[str]] = []
        self.failing: set[str] = set()
        self.failing_at_once: set[str] = set()
        self._apply_events = attempt.apply_events
        monkeypatch.setattr(attempt, "apply_events", self._run)

    def _run(self, spark: Any, batches: Sequence[EntityBatch]) -> list[Outcome]:
        before = {entity for job in self.of for entity in job}
        self.of.append(sorted(batch.entity for batch in batches))
        failing = self.failing_at_once | (self.failing & before)
        done = self._apply_events(spark, batches)
        return [
            ValueError(f"{batch.entity} cannot be written") if batch.entity in failing else outcome
            for batch, outcome in zip(batches, done, strict=True)
        ]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    return Jobs(monkeypatch)


def a_gap_in_each(pipeline: EmulatedPipeline) -> None:
    gap(pipeline, "Account", ids(pipeline.org, "Account")[0], Name="changed unseen")
    gap(pipeline, "Contact", ids(pipeline.org, "Contact")[0], LastName="changed unseen")


def test_what_is_read_back_of_several_entities_is_applied_in_one_job(synced: EmulatedPipeline, jobs: Jobs) -> None:
    a_gap_in_each(synced)
    synced.tick()
    assert jobs.of == [BOTH, BOTH]
    assert unhealed(synced, *BOTH) == []
    synced.assert_equal_to_the_org(BOTH)


def test_one_that_fails_then_is_red_alone_and_the_others_are_healed(synced: EmulatedPipeline, jobs: Jobs) -> None:
    a_gap_in_each(synced)
    jobs.failing.add("Contact")
    with pytest.raises(RunFailed, match="Contact cannot be written"):
        synced.sync()
    assert unhealed(synced, "Account") == []
    assert unhealed(synced, "Contact") != []
    assert synced.failed_partitions(ASSETS.keys.current_state) == {"Contact"}
    synced.assert_equal_to_the_org(["Account"])
    jobs.failing.clear()
    synced.sync()
    assert synced.failed_partitions(ASSETS.keys.current_state) == set()
    assert unhealed(synced, *BOTH) == []
    synced.assert_equal_to_the_org(BOTH)


def test_one_that_fails_then_is_red_beside_one_that_failed_before(synced: EmulatedPipeline, jobs: Jobs) -> None:
    a_gap_in_each(synced)
    jobs.failing_at_once.add("Account")
    jobs.failing.add("Contact")
    assert not synced.launch(SYNC).success
    assert jobs.of == [BOTH, ["Contact"]]
    assert synced.failed_partitions(ASSETS.keys.current_state) == {"Account", "Contact"}


def test_one_that_fails_when_read_by_hand_stops_no_other(synced: EmulatedPipeline, jobs: Jobs) -> None:
    a_gap_in_each(synced)
    synced.instance.add_dynamic_partitions("salesforce_entity", BOTH)
    assert synced.materialize(["raw_events"], *BOTH).success
    jobs.failing.add("Contact")
    run = synced.materialize(["text_fields", "gap_reconciliation", "current_state", "history"], *BOTH)
    assert not run.success
    assert "Contact cannot be written" in synced.failure(run)
    assert unhealed(synced, "Account") == []
    assert unhealed(synced, "Contact") != []
