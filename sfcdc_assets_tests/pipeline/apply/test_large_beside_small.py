"""One entity with very much to do keeps no other waiting: in a run of Dagster the others are committed before its tasks
begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sfcdc_assets.apply import attempt
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.spark_job import Outcome
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to tables, in order; everything but a few events is large."""
    happened: list[str] = []
    apply_events, commit = attempt.apply_events, CurrentState.commit

    def tasks(spark: Any, batches: Sequence[EntityBatch]) -> list[Outcome]:
        happened.extend(f"tasks of {batch.entity}" for batch in batches)
        return apply_events(spark, batches)

    def committed(state: CurrentState, *arguments: Any, **options: Mapping[str, Any]) -> None:
        commit(state, *arguments, **options)
        happened.append(f"commit of {state.table.name.rpartition('/')[2]}")

    monkeypatch.setattr(attempt, "apply_events", tasks)
    monkeypatch.setattr(CurrentState, "commit", committed)
    return happened


def one_enormous_transaction_and_some_small_ones(pipeline: EmulatedPipeline) -> None:
    org = pipeline.org
    with org.transaction() as one:
        for number in range(300):
            one.create("Account", {"Name": f"of one {number}", "Description": str(hash(number)) * 30})
    for record_id in ids(org, "Contact")[:3]:
        with org.transaction() as one:
            one.update("Contact", record_id, {"LastName": "beside"})


def test_what_lands_beside_an_enormous_transaction_is_committed_before_its_tasks_begin(
    synced: EmulatedPipeline, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_enormous_transaction_and_some_small_ones(synced)
    monkeypatch.setattr(attempt, "LARGE_BYTES", 60_000)
    synced.tick()
    assert seen == ["tasks of Contact", "commit of Contact", "tasks of Account", "commit of Account"]
    synced.assert_equal_to_the_org()


def test_materialized_by_hand_they_come_in_the_same_order(
    synced: EmulatedPipeline, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_enormous_transaction_and_some_small_ones(synced)
    synced.instance.add_dynamic_partitions("salesforce_entity", ["Account", "Contact"])
    run = synced.materialize(["raw_events"], "Account", "Contact")
    assert run.success, synced.failure(run)
    monkeypatch.setattr(attempt, "LARGE_BYTES", 60_000)
    run = synced.materialize(["text_fields", "gap_reconciliation", "current_state", "history"], "Account", "Contact")
    assert run.success, synced.failure(run)
    assert seen == ["tasks of Contact", "commit of Contact", "tasks of Account", "commit of Account"]
