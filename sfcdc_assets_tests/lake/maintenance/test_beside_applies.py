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
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet

pytestmark = pytest.mark.slow

LONG = "a line\n" * 50


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


def night(pipeline: QuietPipeline) -> dict[str, TableDone]:
    """What was done to each table."""
    return {done.table: done for done in maintain(pipeline.warehouse, Retention(7), clock.now_ms())}


def changed(pipeline: QuietPipeline, rounds: int) -> None:
    """Some batches, each with a large text."""
    for number in range(rounds):
        for record_id in pipeline.ids()[:3]:
            pipeline.update(record_id, Phone=str(number), Description=f"{LONG}{number}")
        pipeline.catch_up()


def files(pipeline: QuietPipeline, name: str) -> int:
    table = Table.open(pipeline.warehouse, name)
    assert table is not None
    return len(table.files())


def test_tables_are_the_org_after_every_night_and_can_be_built_again(pipeline: QuietPipeline) -> None:
    for _ in range(3):
        changed(pipeline, 3)
        done = night(pipeline)
        assert [str(each) for each in done.values() if each.problem or each.left] == []
        assert done["raw_events"].packed_into == done[f"text_fields/{ENTITY}"].packed_into == 1
        assert (files(pipeline, "raw_events"), files(pipeline, f"text_fields/{ENTITY}")) == (1, 1)
        pipeline.assert_equal()
    changed(pipeline, 1)
    pipeline.assert_equal()
    pipeline.rebuild()
    pipeline.assert_equal()
    status = status_of(pipeline.warehouse, load_settings())
    assert (status.damaged, [each.up_to_date for each in status.entities]) == ((), [True])


def test_an_apply_commits_although_a_night_came_between_its_plan_and_its_commits(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(pipeline, 3)
    done: list[dict[str, TableDone]] = []
    apply_events = attempt.apply_events

    def with_a_night(*arguments: Any) -> Any:
        written = apply_events(*arguments)
        done.append(night(pipeline))
        return written

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "apply_events", with_a_night)
        changed(pipeline, 1)
    assert done[0]["raw_events"].packed > 1
    assert done[0][f"text_fields/{ENTITY}"].packed > 1
    pipeline.assert_equal()


def test_a_night_leaves_alone_what_an_apply_replaced_and_packs_the_rest(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(pipeline, 3)
    write = packing_module.write_packed
    met: list[int] = []

    def while_others_work(*arguments: Any) -> Any:
        written = write(*arguments)
        met.append(1)
        changed(pipeline, 1)
        return written

    with monkeypatch.context() as patch:
        patch.setattr(packing_module, "write_packed", while_others_work)
        done = night(pipeline)
    assert len(met) >= 2
    assert done["raw_events"].packed > 1
    assert [str(each) for each in done.values() if each.problem or each.left] == []
    pipeline.assert_equal()
    assert not any(each.left for each in night(pipeline).values())
    pipeline.assert_equal()


def test_the_cut_of_before_a_night_opens_after_it(pipeline: QuietPipeline) -> None:
    changed(pipeline, 2)
    (cut,) = open_cut(pipeline.warehouse.root).cuts
    night(pipeline)
    assert open_cut(pipeline.warehouse.root).cuts == (cut,)
    assert open_cut(pipeline.warehouse.root)[f"current_state/{ENTITY}"].count() == len(pipeline.rows())
