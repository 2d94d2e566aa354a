"""`current_state`'s commit is the commit point of a batch: a process that dies between any two commits changes nothing
of what is true, for readers and for the runs that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.process_death import Died

pytestmark = pytest.mark.slow

COMMITS = 16
"""No step below makes as many; each is tried until one ends without having died."""


@contextmanager
def dying_at(number: int) -> Iterator[None]:
    """No commit to the entity's tables happens from the n-th on."""
    with pytest.MonkeyPatch.context() as patch:
        made = 0

        def counted(original: Callable[..., Any]) -> Callable[..., Any]:
            def commit(table: DeltaTable, *arguments: Any, **options: Any) -> Any:
                nonlocal made
                if table.table_uri.rstrip("/").endswith(f"/{ENTITY}"):
                    made += 1
                    if made >= number:
                        raise Died
                return original(table, *arguments, **options)

            return commit

        for name in ("create_write_transaction", "delete", "merge"):
            patch.setattr(DeltaTable, name, counted(getattr(DeltaTable, name)))
        yield


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


def update(pipeline: QuietPipeline) -> None:
    for number, record_id in enumerate(pipeline.ids()[:3]):
        pipeline.update(
            record_id, Name=f"at {pipeline.clock.now_ms()} {number}", Description=f"{pipeline.clock.now_ms()} " * 90
        )
    pipeline.clock.advance(1_000)


def a_batch(pipeline: QuietPipeline) -> None:
    update(pipeline)
    pipeline.catch_up()


def a_snapshot_in_the_past(pipeline: QuietPipeline) -> None:
    watermark = pipeline.poll()
    update(pipeline)
    pipeline.catch_up()
    pipeline.snapshot(watermark_at=watermark)
    pipeline.catch_up()


def a_read_back(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    update(pipeline)
    pipeline.catch_up()


STEPS = (a_batch, *(pytest.param(step, marks=pytest.mark.soak) for step in (a_snapshot_in_the_past, a_read_back)))
"""The random crashes of test_crashes.py meet some moments of the others in every run."""


@pytest.mark.parametrize("step", STEPS)
def test_dying_between_any_two_commits_leaves_the_tables_true(
    pipeline: QuietPipeline, step: Callable[[QuietPipeline], None]
) -> None:
    for number in range(1, COMMITS):
        died = True
        with suppress(Died), dying_at(number):
            step(pipeline)
            died = False
        assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))
        if number % 2:
            pipeline.snapshot()
        pipeline.clock.advance(40_000)
        pipeline.catch_up()
        pipeline.clock.advance(400_000)
        pipeline.catch_up()
        pipeline.assert_equal()
        assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))
        if not died:
            break
    else:
        raise AssertionError(f"a step has more than {COMMITS} commits")
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before


def test_an_entry_about_the_entity_is_closed_by_the_next_run_when_the_process_died_before_it_closed_it(
    pipeline: QuietPipeline,
) -> None:
    pipeline.server.faults.arm(Fault.OVERFLOW)
    update(pipeline)
    pipeline.catch_up()
    pipeline.snapshot()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "heal", _die)
        with pytest.raises(Died):
            pipeline.catch_up()
    pipeline.catch_up()
    pipeline.assert_equal()


def _die(*_: object, **__: object) -> None:
    raise Died
