"""Some changes leave SystemModstamp behind their commit time: long after the event, the row is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, LONGEST_LAG_MS, QuietLife, quiet

pytestmark = pytest.mark.slow


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    """Synced; changes from now on have a SystemModstamp of a minute before."""
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        life.server.faults.arm(Fault.STALE_MODSTAMP, times=100, behind=60)
        yield life


def attempts(life: QuietLife) -> list[int]:
    return [suspect["attempts"] for suspect in life.open_suspects().values()]


def test_a_row_whose_modstamp_is_behind_its_event_is_believed_when_the_event_is_old(life: QuietLife) -> None:
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    life.update(life.ids()[0], Name="modified earlier, it says")
    life.catch_up()
    assert attempts(life) == [1]
    life.clock.advance(LONGEST_LAG_MS // 2)
    life.catch_up()
    assert attempts(life) == [2], "it may still be REST that lags"
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()


def test_an_event_that_was_just_received_is_waited_for_however_old_it_is(life: QuietLife) -> None:
    """A pipeline that was down for hours: only its own clock says for how long the org had time to show the change."""
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    life.update(life.ids()[0], Name="modified earlier, it says")
    life.clock.advance(10 * LONGEST_LAG_MS)
    life.catch_up()
    assert attempts(life) == [1]
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()


def test_a_snapshot_with_such_rows_heals_too(life: QuietLife) -> None:
    life.update(life.ids()[0], Name="modified earlier, it says")
    life.snapshot()
    life.catch_up()
    assert [suspect["reason"] for suspect in life.open_suspects().values()] == ["stale_snapshot"]
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()


def test_a_new_record_of_whose_event_the_kind_is_unknown_is_not_taken_to_be_deleted_while_rest_lags(
    life: QuietLife,
) -> None:
    life.server.faults.disarm()
    life.server.faults.arm(Fault.REST_LAG, behind=60)
    life.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    with life.org.transaction() as work:
        work.create(ENTITY, {"Name": "not shown yet"})
    life.catch_up()
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()


def test_a_deleted_record_that_rest_never_showed_is_not_taken_to_be_gone_for_good_while_rest_lags(
    life: QuietLife,
) -> None:
    life.server.faults.disarm()
    life.server.faults.arm(Fault.REST_LAG, behind=60)
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    with life.org.transaction() as work:
        record_id = work.create(ENTITY, {"Name": "in the recycle bin"})
    with life.org.transaction() as work:
        work.delete(ENTITY, record_id)
    life.catch_up()
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()
    assert life.rows()[record_id]["_deleted_reason"] == "deleted"


def test_a_record_that_was_known_and_is_gone_for_good_heals_at_once_whatever_came_before(life: QuietLife) -> None:
    life.server.faults.disarm()
    record_id = life.ids()[0]
    life.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    life.update(record_id, Name="of a kind that is not known")
    with life.org.transaction() as work:
        work.hard_delete(ENTITY, record_id)
    life.catch_up()
    assert life.open_suspects() == {}
    assert life.rows()[record_id]["_deleted_reason"] == "hard_deleted"
