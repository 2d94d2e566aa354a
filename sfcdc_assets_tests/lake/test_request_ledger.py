"""The note of the org's API requests that processes share."""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets.lake.store.request_ledger import RequestLedger, note_ledger, read_ledger
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock

DAY_MS = 86_400_000


def test_of_two_processes_the_one_that_asked_last_knows_the_allowance(tmp_path: Path) -> None:
    warehouse, now_ms = Warehouse(str(tmp_path)), clock.now_ms()
    note_ledger(warehouse, RequestLedger(allowance=(100, 90, now_ms - 10)))
    note_ledger(warehouse, RequestLedger(allowance=(100, 95, now_ms - 20)))
    assert read_ledger(warehouse).allowance == (100, 90, now_ms - 10)


def test_what_a_clock_that_was_ahead_noted_of_the_allowance_gives_way(tmp_path: Path) -> None:
    warehouse, now_ms = Warehouse(str(tmp_path)), clock.now_ms()
    note_ledger(warehouse, RequestLedger(allowance=(100, 5, now_ms + 300 * DAY_MS)))
    note_ledger(warehouse, RequestLedger(allowance=(100, 90, now_ms - 10)))
    assert read_ledger(warehouse).allowance == (100, 90, now_ms - 10)
