"""Delta removes commits that are 30 days old, and what only they say: nothing that must last is in them alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import clean_up_logs
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import QuietPipeline, quiet
from sfcdc_assets_tests.process_death import Died


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


def clean_up(pipeline: QuietPipeline) -> None:
    root = Path(pipeline.warehouse.root)
    clean_up_logs(root, time.time())
    kept = [len(list(log.glob("*.json"))) for log in root.rglob("_delta_log")]
    assert max(kept) <= 1, "the commits of before are gone"


def lost_event(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.LOST_EVENT)
    pipeline.update(pipeline.ids()[0], Name="without an event")


def test_the_snapshot_after_a_cleanup_is_the_next_one_and_is_applied(pipeline: QuietPipeline) -> None:
    clean_up(pipeline)
    lost_event(pipeline)
    assert pipeline.snapshot().number == 2
    pipeline.catch_up()
    pipeline.assert_equal()


def test_a_snapshot_goes_on_where_it_was_when_its_log_is_gone(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_event(pipeline)
    add_page = Snapshots.add_page
    monkeypatch.setattr(Snapshots, "add_page", _die)
    with pytest.raises(Died):
        pipeline.snapshot()
    monkeypatch.setattr(Snapshots, "add_page", add_page)
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(pipeline.ids()[1], Name="read back, which is a commit after that of the progress")
    pipeline.catch_up()
    clean_up(pipeline)
    report = pipeline.snapshot()
    assert (report.number, report.resumed) == (2, True)
    pipeline.catch_up()
    pipeline.assert_equal()


def _die(*_: object, **__: object) -> None:
    raise Died


def test_an_entry_that_a_read_back_answers_after_a_cleanup_heals(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(pipeline.ids()[0], Name="not reported")
    clean_up(pipeline)
    pipeline.catch_up()
    clean_up(pipeline)
    pipeline.clock.advance(400_000)
    pipeline.catch_up()
    pipeline.assert_equal()
