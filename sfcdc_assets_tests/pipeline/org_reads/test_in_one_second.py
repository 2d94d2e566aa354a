"""Two transactions change a record in one second, and REST lags by more than reads allow for: a row of which
SystemModstamp cannot tell whether it shows both is believed only if it has what the second one set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.org_reads import read_back, take_snapshot
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, LONGEST_LAG_MS, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of

LAG_MS = 60_000
"""Longer than what the watermark leaves to REST, shorter than after what a read surely shows an event."""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    """Synced long ago; the clock is at the beginning of a second."""
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        pipeline.clock.advance(LONGEST_LAG_MS)
        pipeline.clock.advance(1_000 - pipeline.clock() % 1_000)
        yield pipeline


def in_one_second(pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch, *, deleted: bool = False) -> str:
    """Id of a record that two transactions have changed, half a second apart. REST shows the first one when it is next
    read, by a snapshot or by its Id."""
    record_id, first = pipeline.ids()[0], pipeline.clock()
    pipeline.settings(rest_delay=LAG_MS)
    pipeline.update(record_id, Name="first", Phone="1")
    pipeline.clock.advance(500)
    with pipeline.org.transaction() as work:
        if deleted:
            work.delete(ENTITY, record_id)
        else:
            work.update(ENTITY, record_id, {"Name": "second"})

    def just_shown() -> None:
        pipeline.clock.advance(max(0, first + LAG_MS + 250 - pipeline.clock()))

    for module, name in ((take_snapshot, "start"), (read_back, "read_back")):
        monkeypatch.setattr(module, name, after(just_shown, getattr(module, name)))
    return record_id


def after(first: Callable[[], None], then: Callable[..., Any]) -> Callable[..., Any]:
    """One after the other."""

    def both(*args: Any, **named: Any) -> Any:
        first()
        return then(*args, **named)

    return both


def believed(pipeline: QuietPipeline, version: int, record_id: str) -> list[tuple[str, bool]]:
    """Name, and whether the record is deleted, as readers could see them since a version without a mark."""
    rows = [rows[record_id] for rows in pipeline.rows_since(version)]
    return [(row["Name"], row["_is_deleted"]) for row in rows if not row["_in_doubt"]]


@pytest.mark.parametrize("applied_before", [True, False])
def test_a_snapshot_that_shows_the_first_of_them_is_not_believed(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch, applied_before: bool
) -> None:
    record_id = in_one_second(pipeline, monkeypatch)
    if applied_before:
        pipeline.catch_up()
    before = pipeline.version()
    pipeline.snapshot()
    pipeline.catch_up()
    assert set(believed(pipeline, before, record_id)) == {("second", False)}
    pipeline.assert_equal()


def test_a_record_that_was_read_back_as_the_first_of_them_left_it_is_read_again(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.server.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    record_id = in_one_second(pipeline, monkeypatch)
    before = pipeline.version()
    pipeline.catch_up()
    assert set(believed(pipeline, before, record_id)) == {("second", False)}
    pipeline.assert_equal()


def test_a_record_that_the_second_of_them_deleted_is_not_alive(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id = in_one_second(pipeline, monkeypatch, deleted=True)
    before = pipeline.version()
    pipeline.snapshot()
    pipeline.catch_up()
    assert {deleted for _, deleted in believed(pipeline, before, record_id)} == {True}
    pipeline.assert_equal()


def test_where_rest_does_not_lag_the_values_show_it_at_once(pipeline: QuietPipeline) -> None:
    """However many there were: only one that tells no values, such as a gap, waits until REST has surely caught up."""
    reported, gap, missing, deleted = pipeline.ids()[:4]
    text = "a line\n" * 500
    for name in ("first", "second", "third"):
        pipeline.update(reported, Name=name, Phone=name, Description=f"{text}{name}")
        pipeline.update(gap, Name=name)
        pipeline.update(deleted, Name=name)
        pipeline.clock.advance(10)
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR, times=2)
    pipeline.update(deleted, Name="untold")
    with pipeline.org.transaction() as work:
        work.delete(ENTITY, deleted)
    pipeline.server.faults.arm(Fault.INTERNAL_ERROR)
    pipeline.update(gap, Name="fourth")
    pipeline.update(missing, Name="alone")
    pipeline.clock.advance(LAG_MS)
    pipeline.snapshot()
    pipeline.catch_up()
    assert "diff" in {row["origin"] for row in rows_of(pipeline.warehouse, f"text_fields/{ENTITY}")}
    assert pipeline.open_suspects().keys() == {gap}
    pipeline.clock.advance(LONGEST_LAG_MS)
    pipeline.catch_up()
    pipeline.assert_equal()
