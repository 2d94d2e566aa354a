"""Two transactions change a record in one second, and REST lags by more than reads allow for: a row of which
SystemModstamp cannot tell whether it shows both is believed only if it has what the second one set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.org_reads import read_back, take_snapshot
from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, LONGEST_LAG_MS, QuietLife, quiet

LAG_MS = 60_000
"""Longer than what the watermark leaves to REST, shorter than after what a read surely shows an event."""


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    """Synced long ago; the clock is at the beginning of a second."""
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        life.clock.advance(LONGEST_LAG_MS)
        life.clock.advance(1_000 - life.clock() % 1_000)
        yield life


def in_one_second(life: QuietLife, monkeypatch: pytest.MonkeyPatch, *, deleted: bool = False) -> str:
    """Id of a record that two transactions have changed, half a second apart. REST shows the first one when it is next
    read, by a snapshot or by its Id."""
    record_id, first = life.ids()[0], life.clock()
    life.settings(rest_delay=LAG_MS)
    life.update(record_id, Name="first", Phone="1")
    life.clock.advance(500)
    with life.org.transaction() as work:
        if deleted:
            work.delete(ENTITY, record_id)
        else:
            work.update(ENTITY, record_id, {"Name": "second"})

    def just_shown() -> None:
        life.clock.advance(max(0, first + LAG_MS + 250 - life.clock()))

    for module, name in ((take_snapshot, "start"), (read_back, "read_back")):
        monkeypatch.setattr(module, name, after(just_shown, getattr(module, name)))
    return record_id


def after(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
    """One after the other."""

    def both(*args: Any, **named: Any) -> Any:
        first()
        return then(*args, **named)

    return both


def believed(life: QuietLife, version: int, record_id: str) -> list[tuple[str, bool]]:
    """Name, and whether the record is deleted, as readers could see them since a version without a mark."""
    rows = [rows[record_id] for rows in life.rows_since(version)]
    return [(row["Name"], row["_is_deleted"]) for row in rows if not row["_in_doubt"]]


@pytest.mark.parametrize("applied_before", [True, False])
def test_a_snapshot_that_shows_the_first_of_them_is_not_believed(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch, applied_before: bool
) -> None:
    record_id = in_one_second(life, monkeypatch)
    if applied_before:
        life.catch_up()
    before = life.version()
    life.snapshot()
    life.catch_up()
    assert set(believed(life, before, record_id)) == {("second", False)}
    life.assert_equal()


def test_a_record_that_was_read_back_as_the_first_of_them_left_it_is_read_again(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    record_id = in_one_second(life, monkeypatch)
    before = life.version()
    life.catch_up()
    assert set(believed(life, before, record_id)) == {("second", False)}
    life.assert_equal()


def test_a_record_that_the_second_of_them_deleted_is_not_alive(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id = in_one_second(life, monkeypatch, deleted=True)
    before = life.version()
    life.snapshot()
    life.catch_up()
    assert {deleted for _, deleted in believed(life, before, record_id)} == {True}
    life.assert_equal()


def test_where_rest_does_not_lag_the_values_show_it_at_once(life: QuietLife) -> None:
    """However many there were: only one that tells no values, such as a gap, waits until REST has surely caught up."""
    reported, gap, missing, deleted = life.ids()[:4]
    text = "a line\n" * 500
    for name in ("first", "second", "third"):
        life.update(reported, Name=name, Phone=name, Description=f"{text}{name}")
        life.update(gap, Name=name)
        life.update(deleted, Name=name)
        life.clock.advance(10)
    life.server.faults.arm(Fault.INTERNAL_ERROR, times=2)
    life.update(deleted, Name="untold")
    with life.org.transaction() as work:
        work.delete(ENTITY, deleted)
    life.server.faults.arm(Fault.INTERNAL_ERROR)
    life.update(gap, Name="fourth")
    life.update(missing, Name="alone")
    life.clock.advance(LAG_MS)
    life.snapshot()
    life.catch_up()
    assert "diff" in {row["origin"] for row in rows_of(life.warehouse, f"text_fields/{ENTITY}")}
    assert life.open_suspects().keys() == {gap}
    life.clock.advance(LONGEST_LAG_MS)
    life.catch_up()
    life.assert_equal()
