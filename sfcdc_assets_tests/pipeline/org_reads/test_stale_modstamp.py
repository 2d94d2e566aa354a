"""Some changes leave SystemModstamp behind their commit time: long after the event, the row is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, LONGEST_LAG_MS, QuietPipeline, quiet

pytestmark = pytest.mark.slow


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    """Synced; changes from now on have a SystemModstamp of a minute before."""
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        pipeline.server.faults.arm(Fault.STALE_MODSTAMP, times=100, behind=60)
        yield pipeline


def attempts(pipeline: QuietPipeline) -> list[int]:
    return [suspect["attempts"] for suspect in pipeline.open_suspects().values()]


def test_a_row_whose_modstamp_is_behind_its_event_is_believed_when_the_event_is_old(pipeline: QuietPipeline) -> None:
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(pipeline.ids()[0], Name="modified earlier, it says")
    pipeline.catch_up()
    assert attempts(pipeline) == [1]
    pipeline.clock.advance(LONGEST_LAG_MS // 2)
    pipeline.catch_up()
    assert attempts(pipeline) == [2], "it may still be REST that lags"
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_an_event_that_was_just_received_is_waited_for_however_old_it_is(pipeline: QuietPipeline) -> None:
    """A pipeline that was down for hours: only its own clock says for how long the org had time to show the change."""
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(pipeline.ids()[0], Name="modified earlier, it says")
    pipeline.clock.advance(10 * LONGEST_LAG_MS)
    pipeline.catch_up()
    assert attempts(pipeline) == [1]
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_a_snapshot_with_such_rows_heals_too(pipeline: QuietPipeline) -> None:
    pipeline.update(pipeline.ids()[0], Name="modified earlier, it says")
    pipeline.snapshot()
    pipeline.catch_up()
    assert [suspect["reason"] for suspect in pipeline.open_suspects().values()] == ["stale_snapshot"]
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_a_new_record_of_whose_event_the_kind_is_unknown_is_not_taken_to_be_deleted_while_rest_lags(
    pipeline: QuietPipeline,
) -> None:
    pipeline.server.faults.disarm()
    pipeline.server.faults.arm(Fault.REST_LAG, behind=60)
    pipeline.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    with pipeline.org.transaction() as work:
        work.create(ENTITY, {"Name": "not shown yet"})
    pipeline.catch_up()
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()


def test_a_deleted_record_that_rest_never_showed_is_not_taken_to_be_gone_for_good_while_rest_lags(
    pipeline: QuietPipeline,
) -> None:
    pipeline.server.faults.disarm()
    pipeline.server.faults.arm(Fault.REST_LAG, behind=60)
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    with pipeline.org.transaction() as work:
        record_id = work.create(ENTITY, {"Name": "in the recycle bin"})
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, record_id)
    pipeline.catch_up()
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()
    assert pipeline.rows()[record_id]["_deleted_reason"] == "deleted"


def test_a_record_that_was_known_and_is_gone_for_good_heals_at_once_whatever_came_before(
    pipeline: QuietPipeline,
) -> None:
    pipeline.server.faults.disarm()
    record_id = pipeline.ids()[0]
    pipeline.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    pipeline.update(record_id, Name="of a kind that is not known")
    with pipeline.org.transaction() as work:
        work.hard_delete(ENTITY, record_id)
    pipeline.catch_up()
    assert pipeline.open_suspects() == {}
    assert pipeline.rows()[record_id]["_deleted_reason"] == "hard_deleted"
