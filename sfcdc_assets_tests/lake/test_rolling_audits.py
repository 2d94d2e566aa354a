"""What is remembered of the rolling audit when its old rows are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.rolling_audits import NAME, LastComparison, RollingAudits, Suspicion
from sfcdc_assets.lake.warehouse import Warehouse

DAY_MS = 86_400_000
NOW = 1_800_000_000_000


def noted(warehouse: Warehouse, *looks: LastComparison) -> None:
    for each in looks:
        RollingAudits(warehouse).note([each], 1, each.at_ms)


def days_ago(*days: int) -> Sequence[int]:
    return [NOW - each * DAY_MS for each in days]


def test_the_last_pass_window_and_look_of_an_entity_are_known_however_old(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    before, ended, window, beside = days_ago(90, 80, 70, 60)
    differs = (Suspicion("001A", "Name", "", beside),)
    noted(
        warehouse,
        LastComparison("Huge", before, ended_pass=True),
        LastComparison("Huge", ended, ended_pass=True),
        LastComparison("Huge", window, up_to_id="001B"),
        LastComparison("Huge", beside, up_to_id="001B", suspicions=differs),
        LastComparison("Small", ended, ended_pass=True),
    )
    for _ in range(2):
        RollingAudits(warehouse).forget_old(NOW)
        again = RollingAudits(warehouse)
        assert again.passes_ended() == {"Huge": ended, "Small": ended}
        assert again.windows() == {"Small": ended, "Huge": window}
        assert again.looks()["Huge"] == LastComparison("Huge", beside, up_to_id="001B", suspicions=differs)
        assert again.requests_since(before) == 4, "beside what is kept, and was made at its time"


def test_what_is_kept_is_no_reason_to_delete_again(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    noted(warehouse, *(LastComparison("Small", at, ended_pass=True) for at in days_ago(50, 40)))
    versions = set()
    for _ in range(3):
        RollingAudits(warehouse).forget_old(NOW)
        table = Table.open(warehouse, NAME)
        assert table is not None
        versions.add(table.version)
    assert len(versions) == 1


def test_rows_of_thousands_of_entities_are_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    (oldest,) = days_ago(60)
    RollingAudits(warehouse).count_requests(1, oldest - 1)
    many = [LastComparison(f"Object{number}__c", oldest + number, ended_pass=True) for number in range(2_000)]
    RollingAudits(warehouse).note(many, 0, NOW)
    RollingAudits(warehouse).forget_old(NOW)
    again = RollingAudits(warehouse)
    assert len(again.passes_ended()) == 2_000
    assert again.requests_since(0) == 0
