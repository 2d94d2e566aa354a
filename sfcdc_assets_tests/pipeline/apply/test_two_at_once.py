"""Two processes at work on an entity's tables: one does all of its work before some commit of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entity
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.reconciliation.rebuild import rebuild_entity
from sfcdc_assets_tests.pipeline.commits import another_memory, before_commit
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.run_contexts import run_on

MOST = 60
"""More commits than any of the works below has."""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        change(pipeline, "first")
        yield pipeline


def change(pipeline: QuietPipeline, text: str) -> None:
    """Changes that are applied when this returns."""
    for record_id in pipeline.ids()[:3]:
        pipeline.update(record_id, Name=f"{text} {record_id}", Description=f"{text} " * 200)
    pipeline.clock.advance(1_000)
    pipeline.catch_up()


def rebuild(pipeline: QuietPipeline) -> None:
    def apply(tables: Warehouse) -> ApplyReport:
        return apply_entity(run_on(tables), ToApply(ENTITY, CHANNEL))

    rebuild_entity(pipeline.warehouse, ENTITY, CHANNEL, apply)


def rebuild_of_removed_layers(pipeline: QuietPipeline) -> None:
    remove_layers(pipeline.warehouse, ENTITY)
    rebuild(pipeline)


def night(pipeline: QuietPipeline) -> None:
    assert not [done.problem for done in maintain(pipeline.warehouse, Retention(7), pipeline.clock()) if done.problem]


def in_another_process(work: Callable[[], None]) -> None:
    with another_memory():
        work()


FIRST = (
    pytest.param(partial(change, text="own"), id="change"),
    *(pytest.param(first, marks=pytest.mark.soak) for first in (rebuild, rebuild_of_removed_layers, night)),
)


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRST)
def test_a_run_before_any_commit_of_another_work_leaves_the_right_tables(
    pipeline: QuietPipeline, first: Callable[[QuietPipeline], None]
) -> None:
    for number in range(1, MOST):
        meanwhile = partial(in_another_process, partial(change, pipeline, f"at {number}"))
        with before_commit(number, meanwhile) as commits:
            try:
                first(pipeline)
            except ConcurrentCommit:
                first(pipeline)
        if commits.happened_at is None:
            break
        pipeline.catch_up()
        pipeline.assert_equal()
        assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))
        before = pipeline.layers()
        rebuild(pipeline)
        assert pipeline.layers() == before, f"after a run before commit {number} to {commits.happened_at}"
    assert 3 <= number < MOST - 1, "each commit had its turn"
