"""Delta removes commits that are 30 days old, and what only they say: nothing that must last is in them alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets_tests.pipeline.lives.quiet_life import QuietLife, quiet
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import clean_up_logs
from sfcdc_assets_tests.process_death import Died


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        yield life


def clean_up(life: QuietLife) -> None:
    root = Path(life.warehouse.root)
    clean_up_logs(root, time.time())
    kept = [len(list(log.glob("*.json"))) for log in root.rglob("_delta_log")]
    assert max(kept) <= 1, "the commits of before are gone"


def lost_event(life: QuietLife) -> None:
    life.server.faults.arm(Fault.LOST_EVENT)
    life.update(life.ids()[0], Name="no event tells of it")


def test_the_snapshot_after_a_cleanup_is_the_next_one_and_is_applied(life: QuietLife) -> None:
    clean_up(life)
    lost_event(life)
    assert life.snapshot().number == 2
    life.catch_up()
    life.assert_equal()


def test_a_snapshot_goes_on_where_it_was_when_its_log_is_gone(life: QuietLife, monkeypatch: pytest.MonkeyPatch) -> None:
    lost_event(life)
    add_page = Snapshots.add_page
    monkeypatch.setattr(Snapshots, "add_page", _die)
    with pytest.raises(Died):
        life.snapshot()
    monkeypatch.setattr(Snapshots, "add_page", add_page)
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    life.update(life.ids()[1], Name="read back, which is a commit after that of the progress")
    life.catch_up()
    clean_up(life)
    report = life.snapshot()
    assert (report.number, report.resumed) == (2, True)
    life.catch_up()
    life.assert_equal()


def _die(*_: object, **__: object) -> None:
    raise Died


def test_an_entry_that_a_read_back_answers_after_a_cleanup_heals(life: QuietLife) -> None:
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    life.update(life.ids()[0], Name="not told")
    clean_up(life)
    life.catch_up()
    clean_up(life)
    life.clock.advance(400_000)
    life.catch_up()
    life.assert_equal()
