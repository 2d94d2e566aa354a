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
from sfcdc_assets_tests.pipeline.lives.lives_tables import versions_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, QuietLife, quiet
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
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        yield life


def update(life: QuietLife) -> None:
    for number, record_id in enumerate(life.ids()[:3]):
        life.update(record_id, Name=f"at {life.clock.now_ms()} {number}", Description=f"{life.clock.now_ms()} " * 90)
    life.clock.advance(1_000)


def a_batch(life: QuietLife) -> None:
    update(life)
    life.catch_up()


def a_snapshot_in_the_past(life: QuietLife) -> None:
    watermark = life.poll()
    update(life)
    life.catch_up()
    life.snapshot(watermark_at=watermark)
    life.catch_up()


def a_read_back(life: QuietLife) -> None:
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    update(life)
    life.catch_up()


STEPS = (a_batch, *(pytest.param(step, marks=pytest.mark.soak) for step in (a_snapshot_in_the_past, a_read_back)))
"""The random crashes of test_crashes.py meet some moments of the others in every run."""


@pytest.mark.parametrize("step", STEPS)
def test_dying_between_any_two_commits_leaves_the_tables_true(
    life: QuietLife, step: Callable[[QuietLife], None]
) -> None:
    for number in range(1, COMMITS):
        died = True
        with suppress(Died), dying_at(number):
            step(life)
            died = False
        assert_versions_follow(versions_of(life.warehouse, ENTITY))
        if number % 2:
            life.snapshot()
        life.clock.advance(40_000)
        life.catch_up()
        life.clock.advance(400_000)
        life.catch_up()
        life.assert_equal()
        assert_versions_follow(versions_of(life.warehouse, ENTITY))
        if not died:
            break
    else:
        raise AssertionError(f"a step has more than {COMMITS} commits")
    before = life.layers()
    life.rebuild()
    assert life.layers() == before


def test_an_entry_about_the_entity_is_closed_by_the_next_run_when_the_process_died_before_it_closed_it(
    life: QuietLife,
) -> None:
    life.server.faults.arm(Fault.OVERFLOW)
    update(life)
    life.catch_up()
    life.snapshot()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "heal", _die)
        with pytest.raises(Died):
            life.catch_up()
    life.catch_up()
    life.assert_equal()


def _die(*_: object, **__: object) -> None:
    raise Died
