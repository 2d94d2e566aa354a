"""Entities of a run share a job of Spark and nothing else: what happens to one does not happen to the others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.apply import attempt
from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entities
from sfcdc_assets.apply.entity_batch import EntityBatch
from sfcdc_assets.apply.spark_job import Outcome, apply_events
from sfcdc_assets.apply.task_failures import TaskFailed
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.delta.commit_protocol import CommitProtocol
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.apply.many_entities import CHANNEL, Counts, Entities, catch_up, measure
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

NAMES = tuple(f"Entity{number}__c" for number in range(5))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Entities:
    """Five, whose events and day zero are to be applied; tests work on copies, never on it."""
    made = Entities(Warehouse(str(tmp_path_factory.mktemp("kept") / "warehouse")), NAMES, 6)
    made.day_zero()
    made.land(2)
    return made


@pytest.fixture
def entities(kept: Entities, tmp_path: Path) -> Entities:
    """A test's own five."""
    return kept.copied(tmp_path / "warehouse")


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The entities of each job, which is done in this process."""
    without_spark(monkeypatch, Random(3))
    apply, seen = attempt.apply_events, []

    def counted(spark: Any, batches: Sequence[EntityBatch]) -> list[Outcome]:
        seen.append([batch.entity for batch in batches])
        return apply(spark, batches)

    monkeypatch.setattr(attempt, "apply_events", counted)
    return seen


def applied(entities: Entities, spark: SparkSession | None = None) -> Mapping[str, ApplyReport | Exception]:
    wanted = [ToApply(name, CHANNEL) for name in NAMES]
    return apply_entities(run_on(entities.warehouse, spark=lambda: spark), wanted)


def errors(found: Mapping[str, ApplyReport | Exception]) -> dict[str, type]:
    return {entity: type(each) for entity, each in found.items() if isinstance(each, Exception)}


def events_of(entities: Entities, entity: str) -> list[Path]:
    return sorted((Path(entities.warehouse.root) / "raw_events" / f"entity_name={entity}").glob("*.parquet"))


def test_entities_share_a_job(entities: Entities, jobs: list[list[str]]) -> None:
    assert errors(applied(entities)) == {}
    assert jobs == [list(NAMES)]
    assert entities.differences() == []
    assert errors(applied(entities)) == {}
    assert jobs == [list(NAMES)], "where nothing is new there is no job"


def test_what_is_too_much_for_each_task_to_read_is_shuffled_with_the_same_result(
    spark: SparkSession, entities: Entities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "is_small", lambda events, size, ranges: False)
    assert errors(applied(entities, spark)) == {}
    assert entities.differences() == []
    monkeypatch.undo()
    entities.land(1)
    assert errors(applied(entities, spark)) == {}
    assert entities.differences() == []


def test_spark_has_as_many_jobs_for_many_entities_as_for_one(spark: SparkSession, tmp_path: Path) -> None:
    found = {}
    for count in (1, 8):
        names = [f"Of{count}x{number}__c" for number in range(count)]
        made = Entities(Warehouse(str(tmp_path / str(count))), names, 4)
        made.day_zero()
        made.land(1)
        found[count] = measure(lambda made=made: catch_up(made, spark), spark).jobs
        assert made.differences() == []
    assert found[8] == found[1] > 0


def test_an_entity_with_much_to_read_has_a_job_of_its_own_after_the_others(
    entities: Entities, jobs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(entities)
    names, entities.names = entities.names, NAMES[1:2]
    for _ in range(20):
        entities.land(1)
    entities.names = names
    entities.land(1)
    states = Path(entities.warehouse.root) / "current_state"
    of_others = [[*events_of(entities, name), *(states / name).glob("*.parquet")] for name in (NAMES[0], *NAMES[2:])]
    monkeypatch.setattr(attempt, "LARGE_BYTES", max(sum(file.stat().st_size for file in of) for of in of_others))
    assert errors(applied(entities)) == {}
    assert jobs[1:] == [[NAMES[0], *NAMES[2:]], [NAMES[1]]]
    assert entities.differences() == []


def test_large_entities_come_after_all_small_ones_and_the_one_with_less_to_read_first(
    entities: Entities, jobs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "MOST_ENTITIES", 2)
    monkeypatch.setattr(attempt, "LARGE_BYTES", 1000)
    sizes = dict(zip(NAMES, (3000, 10, 2000, 20, 30), strict=True))
    tasks_of = attempt.batch_tasks
    monkeypatch.setattr(
        attempt,
        "batch_tasks",
        lambda tables, *rest: replace(tasks_of(tables, *rest), bytes=sizes[tables.entity]),  # type: ignore[type-var]
    )
    assert errors(applied(entities)) == {}
    assert jobs == [[NAMES[1]], [NAMES[3]], [NAMES[4]], [NAMES[2]], [NAMES[0]]]
    assert entities.differences() == []


def test_few_events_that_touch_many_rows_make_an_entity_large(
    entities: Entities, jobs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(entities)
    entities.land(1)
    table = Table.open(entities.warehouse, f"current_state/{NAMES[3]}")
    assert table is not None
    (file,) = table.files()
    statistics = CurrentState.files
    monkeypatch.setattr(
        CurrentState,
        "files",
        lambda state: {path: replace(each, size=each.size + 10**8) if each == file else each
                       for path, each in statistics(state).items()},
    )  # fmt: skip
    assert errors(applied(entities)) == {}
    assert jobs[1:] == [[*NAMES[:3], NAMES[4]], [NAMES[3]]]


def test_an_entity_whose_events_are_gone_fails_alone_and_is_reported_with_the_file(
    entities: Entities, jobs: list[list[str]]
) -> None:
    applied(entities)
    entities.land(2)
    (*_, lost) = sorted(events_of(entities, NAMES[2]), key=lambda file: file.stat().st_mtime_ns)
    kept = lost.read_bytes()
    lost.write_bytes(kept[:-200] + bytes(200))
    found = applied(entities)
    assert errors(found) == {NAMES[2]: TableDamaged}
    assert lost.name in str(found[NAMES[2]])
    assert {each.partition(":")[0].rpartition("/")[2] for each in entities.differences()} == {NAMES[2]}
    lost.write_bytes(kept)
    assert errors(applied(entities)) == {}
    assert entities.differences() == []


def test_what_fails_in_a_task_is_the_outcome_of_its_entity(
    spark: SparkSession, entities: Entities, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_one_that_fails(session: SparkSession, batches: Sequence[EntityBatch]) -> list[Outcome]:
        wrong = replace(batches[1], task=replace(batches[1].task, columns=()))
        return apply_events(session, [batches[0], wrong, *batches[2:]])

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "apply_events", with_one_that_fails)
        found = applied(entities, spark)
    assert errors(found) == {NAMES[1]: TaskFailed}
    assert "Traceback" in found[NAMES[1]].trace  # type: ignore[union-attr]
    assert errors(applied(entities, spark)) == {}
    assert entities.differences() == []


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (1,)


def test_a_task_that_takes_its_worker_with_it_takes_no_other_entity(
    spark: SparkSession, entities: Entities, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_one_that_dies(session: SparkSession, batches: Sequence[EntityBatch]) -> list[Outcome]:
        deadly = replace(batches[3], events=replace(batches[3].events, filesystem=Deadly()))  # type: ignore[arg-type]
        return apply_events(session, [*batches[:3], deadly, *batches[4:]])

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "apply_events", with_one_that_dies)
        assert errors(applied(entities, spark)).keys() == {NAMES[3]}
    assert errors(applied(entities, spark)) == {}
    assert entities.differences() == []


def test_an_entity_that_another_run_was_faster_with_is_decided_again_and_the_others_are_not(
    entities: Entities, jobs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(entities)
    entities.land(2)
    apply, meanwhile = attempt.apply_events, []

    def overtaken(spark: Any, batches: Sequence[EntityBatch]) -> list[Outcome]:
        written = apply(spark, batches)
        if not meanwhile:
            meanwhile.append(1)
            state = CurrentState.open(entities.warehouse, NAMES[4])
            assert state is not None
            state.fence()
        return written

    monkeypatch.setattr(attempt, "apply_events", overtaken)
    assert errors(applied(entities)) == {}
    assert jobs[1:] == [list(NAMES), [NAMES[4]]]
    assert entities.differences() == []


def test_only_tables_that_have_changed_are_opened_to_tell_the_state_of_all_entities(
    entities: Entities, jobs: list[list[str]]
) -> None:
    applied(entities)

    def look() -> tuple[int, list[EntityState]]:
        counts = Counts()
        with counts.counted():
            found = entity_states(entities.warehouse, dict.fromkeys(NAMES, CHANNEL), 0, NOTHING_PRIVATE)
        return counts.opens, found

    look()
    opens, states = look()
    assert opens == len(["raw_events"])
    state = CurrentState.open(entities.warehouse, NAMES[4])
    assert state is not None
    state.fence()
    assert look()[0] == 5 + len(["raw_events"])
    assert [state.has_work for state in states] == [False] * len(NAMES)
    assert [len(state.versions) for state in states] == [4] * len(NAMES)


def test_entities_that_are_committed_beside_each_other_keep_each_its_own_order(
    entities: Entities, jobs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "AT_ONCE", len(NAMES))
    committed: list[str] = []
    write = CommitProtocol._write

    def noted(table: CommitProtocol, *arguments: Any, **options: Any) -> None:
        write(table, *arguments, **options)
        committed.append(table.name)

    monkeypatch.setattr(CommitProtocol, "_write", noted)
    applied(entities)
    for _ in range(3):
        entities.land(2)
        committed.clear()
        assert errors(applied(entities)) == {}
        for name in NAMES:
            layers = [table.partition("/")[0] for table in committed if table.endswith(f"/{name}")]
            assert layers == ["text_fields", "history", "current_state"]
    assert entities.differences() == []
