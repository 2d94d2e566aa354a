"""Merges: the losers' rows say why they are deleted, though their events do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, LONGEST_LAG_MS, quiet


def test_the_loser_of_a_merge_is_read_back_and_says_so_and_a_mass_delete_is_not(
    make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", 0)
    pipeline = make_pipeline("Account", records=12)
    pipeline.sync()
    master, first, second, deleted, touched, *others = ids(pipeline.org, "Account")
    with pipeline.org.transaction() as work:
        work.merge("Account", master, (first, second))
    with pipeline.org.transaction() as work:
        work.delete("Account", deleted)
    with pipeline.org.transaction() as work:
        work.update("Account", touched, {"Site": "by a trigger"})
        for record_id in others[:3]:
            work.delete("Account", record_id)
    pipeline.sync()
    rows = pipeline.rows("Account")
    assert {rows[each]["_deleted_reason"] for each in (first, second)} == {"merged"}
    assert {rows[each]["_deleted_reason"] for each in (deleted, *others[:3])} == {"deleted"}
    found = pipeline.scan("gap_reconciliation/Account")
    assert {(each["record_id"], each["reason"], each["status"]) for each in found} == {
        (each, "silent_change", "healed") for each in (first, second)
    }
    pipeline.assert_equal_to_the_org()


def test_a_loser_that_rest_shows_late_stays_deleted_and_is_read_again_until_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with quiet(tmp_path, monkeypatch) as quiet_pipeline:
        quiet_pipeline.sync()
        before = quiet_pipeline.version()
        master, loser, *_ = quiet_pipeline.ids()
        quiet_pipeline.clock.advance(LONGEST_LAG_MS)
        quiet_pipeline.settings(rest_delay=LONGEST_LAG_MS // 2)
        with quiet_pipeline.org.transaction() as work:
            work.merge(ENTITY, master, (loser,))
        quiet_pipeline.clock.advance(1_000)
        quiet_pipeline.catch_up()
        assert [suspect["reason"] for suspect in quiet_pipeline.open_suspects().values()] == ["silent_change"]
        quiet_pipeline.clock.advance(LONGEST_LAG_MS)
        quiet_pipeline.catch_up()
        assert quiet_pipeline.rows()[loser]["_deleted_reason"] == "merged"
        assert all(rows[loser]["_is_deleted"] for rows in quiet_pipeline.rows_since(before))
        quiet_pipeline.assert_equal()
