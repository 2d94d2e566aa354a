"""All versions of an entity's records are of one moment, whatever is committed while its two tables are opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import history
from sfcdc_assets.lake.tables.all_versions import open_history
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.reconciliation.broken_histories import broken
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


def between(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> list[str]:
    """Let something happen once, after `current_state` was opened and before `history` is."""
    done: list[str] = []
    opens = history.open_if_there

    def opening(warehouse: Warehouse, entity: str) -> Appended | None:
        if not done:
            done.append(entity)
            happens()
        return opens(warehouse, entity)

    monkeypatch.setattr("sfcdc_assets.lake.tables.all_versions.history.open_if_there", opening)
    return done


def versions(pipeline: QuietPipeline) -> set[tuple[Any, ...]]:
    found = open_history(pipeline.warehouse.root, ENTITY)
    assert broken(arrow_frame(found)) == []
    rows = found.select(["Id", "Name", "_position", "_superseded_at", "_valid_to"]).to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows), "none is there twice"
    return {tuple(row.values()) for row in rows}


def three_changes(pipeline: QuietPipeline) -> list[int]:
    positions = []
    for number in range(3):
        pipeline.update(pipeline.ids()[0], Name=f"name {number}")
        positions.append(pipeline.poll())
    pipeline.catch_up()
    return positions


def test_a_batch_that_is_committed_in_between_leaves_no_hole(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_changes(pipeline)
    before = versions(pipeline)

    def batch() -> None:
        pipeline.update(pipeline.ids()[0], Name="in between")
        pipeline.poll()
        pipeline.catch_up()

    done = between(monkeypatch, batch)
    seen = versions(pipeline)
    assert done
    assert len(seen) == len(before) + 1
    assert seen == versions(pipeline)


def test_a_batch_that_goes_back_and_removes_what_it_replaces_leaves_no_hole(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = three_changes(pipeline)

    def goes_back() -> None:
        pipeline.snapshot(watermark_at=first)
        pipeline.catch_up()

    done = between(monkeypatch, goes_back)
    seen = versions(pipeline)
    assert done
    assert seen == versions(pipeline)


def test_a_rebuild_that_ended_between_its_commits_is_not_seen(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`history` is replaced, and noted as not built with `current_state`, which is still the old one."""
    three_changes(pipeline)
    before = versions(pipeline)
    past = history.open_if_there(pipeline.warehouse, ENTITY)
    assert past is not None
    past.empty()
    now = Table.open(pipeline.warehouse, f"history/{ENTITY}")
    assert now is not None
    assert now.count() == 0
    assert versions(pipeline) == before
