"""Maintenance and applies at the same time: neither fails, and the tables are the org."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets import open_cut
from sfcdc_assets.apply import attempt
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance import pack as packing_module
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_done import TableDone
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, QuietLife, quiet

pytestmark = pytest.mark.slow

LONG = "a line\n" * 50


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        yield life


def night(life: QuietLife) -> dict[str, TableDone]:
    """What was done to each table."""
    return {done.table: done for done in maintain(life.warehouse, Retention(7), clock.now_ms())}


def changed(life: QuietLife, rounds: int) -> None:
    """Some batches, each with a large text."""
    for number in range(rounds):
        for record_id in life.ids()[:3]:
            life.update(record_id, Phone=str(number), Description=f"{LONG}{number}")
        life.catch_up()


def files(life: QuietLife, name: str) -> int:
    table = Table.open(life.warehouse, name)
    assert table is not None
    return len(table.files())


def test_tables_are_the_org_after_every_night_and_can_be_built_again(life: QuietLife) -> None:
    for _ in range(3):
        changed(life, 3)
        done = night(life)
        assert [str(each) for each in done.values() if each.problem or each.left] == []
        assert done["raw_events"].packed_into == done[f"text_fields/{ENTITY}"].packed_into == 1
        assert (files(life, "raw_events"), files(life, f"text_fields/{ENTITY}")) == (1, 1)
        life.assert_equal()
    changed(life, 1)
    life.assert_equal()
    life.rebuild()
    life.assert_equal()
    status = status_of(life.warehouse, load_settings())
    assert (status.damaged, [each.up_to_date for each in status.entities]) == ((), [True])


def test_an_apply_commits_although_a_night_came_between_its_plan_and_its_commits(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(life, 3)
    done: list[dict[str, TableDone]] = []
    apply_events = attempt.apply_events

    def with_a_night(*arguments: Any) -> Any:
        written = apply_events(*arguments)
        done.append(night(life))
        return written

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "apply_events", with_a_night)
        changed(life, 1)
    assert done[0]["raw_events"].packed > 1
    assert done[0][f"text_fields/{ENTITY}"].packed > 1
    life.assert_equal()


def test_a_night_leaves_alone_what_an_apply_replaced_and_packs_the_rest(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(life, 3)
    write = packing_module.write_packed
    met: list[int] = []

    def while_others_work(*arguments: Any) -> Any:
        written = write(*arguments)
        met.append(1)
        changed(life, 1)
        return written

    with monkeypatch.context() as patch:
        patch.setattr(packing_module, "write_packed", while_others_work)
        done = night(life)
    assert len(met) >= 2
    assert done["raw_events"].packed > 1
    assert [str(each) for each in done.values() if each.problem or each.left] == []
    life.assert_equal()
    assert not any(each.left for each in night(life).values())
    life.assert_equal()


def test_the_cut_of_before_a_night_opens_after_it(life: QuietLife) -> None:
    changed(life, 2)
    (cut,) = open_cut(life.warehouse.root).cuts
    night(life)
    assert open_cut(life.warehouse.root).cuts == (cut,)
    assert open_cut(life.warehouse.root)[f"current_state/{ENTITY}"].count() == len(life.rows())
