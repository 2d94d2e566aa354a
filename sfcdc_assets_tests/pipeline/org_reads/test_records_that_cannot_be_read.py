"""A record that the org does not give, or gives with a value that is none, is suspect alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.tables import open_suspect
from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, LEDGER, QuietLife, quiet
from sfcdc_assets_tests.pipeline.story import RETRIEVE, Requests

pytestmark = pytest.mark.slow

FIRST_PAUSE_MS = 600_000
PAUSES_MS = (FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS)
SPOILED = {"refused by the org": (), "a number that is none": ("NumberOfEmployees",)}


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    monkeypatch.setattr(open_suspect, "FIRST_PAUSE_MS", FIRST_PAUSE_MS)
    with quiet(tmp_path, monkeypatch, records=40) as life:
        life.sync()
        yield life


def suspect(life: QuietLife, record_ids: list[str]) -> None:
    """Let the stream tell of changes only that they happened."""
    life.server.faults.arm(Fault.INTERNAL_ERROR, len(record_ids))
    for record_id in record_ids:
        life.update(record_id, Site="the stream does not tell", NumberOfEmployees=7)


@pytest.mark.parametrize("how", SPOILED)
def test_all_other_records_heal_in_the_same_attempt_and_it_waits_with_its_own_pause(
    life: QuietLife, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, *others = life.ids()[5:35]
    life.settings(spoiled_records={bad: SPOILED[how]})
    suspect(life, [*others[:20], bad, *others[20:]])
    requests = Requests(life.server, monkeypatch)
    life.catch_up()
    assert life.open_suspects().keys() == life.suspects() == {bad}
    found = life.open_suspects()[bad]
    assert found["attempts"] == 1
    assert ("NumberOfEmployees holds a value that is no int" if SPOILED[how] else "HTTP 500") in found["last_error"]
    asked = [path for path in requests.take_all() if RETRIEVE in path]
    # Halved five times down from 30 to the one; an internal error is asked twice, as it may pass.
    assert len(asked) == (1 if SPOILED[how] else 6 * 2 + 5)
    suspect(life, others[:3])
    life.catch_up()
    assert life.open_suspects()[bad]["attempts"] == 1, "it is left alone, while others are read"
    assert life.suspects() == {bad}
    for number, pause in enumerate(PAUSES_MS, 2):
        life.clock.advance(pause)
        life.catch_up()
        assert life.open_suspects()[bad]["attempts"] == number
    life.settings(spoiled_records={})
    life.clock.advance(10 * PAUSES_MS[-1])
    life.catch_up()
    life.assert_equal()


@pytest.mark.parametrize("how", SPOILED)
def test_a_deleted_record_that_cannot_be_read_keeps_no_other_from_healing(life: QuietLife, how: str) -> None:
    bad, deleted, living, *_ = life.ids()
    suspect(life, [bad, deleted, living])
    life.server.faults.arm(Fault.INTERNAL_ERROR, 2)
    for record_id in (bad, deleted):
        with life.org.transaction() as work:
            work.delete(ENTITY, record_id)
    life.settings(spoiled_records={bad: SPOILED[how]})
    life.catch_up()
    assert life.suspects() == {bad}
    assert life.rows()[deleted]["_deleted_reason"] == "deleted"
    life.settings(spoiled_records={})
    life.clock.advance(PAUSES_MS[-1])
    life.catch_up()
    life.assert_equal()


def test_the_reasons_of_several_are_reported_apart(life: QuietLife) -> None:
    refused, spoiled, *others = life.ids()[:10]
    life.settings(spoiled_records={refused: (), spoiled: ("AnnualRevenue",)})
    suspect(life, [refused, spoiled, *others])
    life.catch_up()
    description = {record_id: suspect["last_error"] for record_id, suspect in life.open_suspects().items()}
    assert description.keys() == {refused, spoiled}
    assert "500" in description[refused]
    assert "AnnualRevenue holds a value that is no double" in description[spoiled]
    assert len(rows_of(life.warehouse, LEDGER)) == 10


def test_a_snapshot_goes_on_without_a_row_that_does_not_convert(life: QuietLife) -> None:
    bad, *others = life.ids()
    before = life.rows()[bad]
    life.settings(spoiled_records={bad: ("NumberOfEmployees", "AnnualRevenue")})
    report = life.snapshot()
    assert report.rows == len(others) + 1
    life.catch_up()
    found = life.open_suspects()[bad]
    assert found["reason"] == "unreadable_row"
    assert f"snapshot {report.number}: column" in found["detail"]
    assert life.suspects() == {bad}
    assert {**life.rows()[bad], "_in_doubt": False} == before
    life.settings(spoiled_records={})
    life.clock.advance(PAUSES_MS[-1])
    life.catch_up()
    life.assert_equal()


def test_a_record_that_never_converted_has_a_suspect_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with quiet(tmp_path, monkeypatch, records=9) as life:
        bad = life.ids()[4]
        life.settings(spoiled_records={bad: ("NumberOfEmployees",)})
        life.catch_up()
        life.snapshot()
        life.catch_up()
        assert life.suspects() == {bad} == life.open_suspects().keys()
        assert len(life.rows()) == 9
        life.settings(spoiled_records={})
        life.clock.advance(PAUSES_MS[-1])
        life.catch_up()
        life.assert_equal()
