"""A short day of steady traffic: what is on disk is counted by kind of table, and every table is right at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.busy_day import BusyDay, live

SHORT = BusyDay(hours=2, seconds=(100.0, 200.0, 300.0), changes_a_second=0.1, records=20)


@pytest.mark.soak
def test_what_hours_of_traffic_leave_on_disk_is_counted_and_every_table_equals_the_org(tmp_path: Path) -> None:
    print(f"seed {SHORT.seed}")
    began, *hours, night = live(SHORT, tmp_path)
    assert len(hours) == SHORT.hours
    assert began.living_mb < hours[0].living_mb < hours[1].living_mb < hours[1].mb
    assert night.by_table["raw_events"] > 0
    assert night.living_mb < hours[1].living_mb, "small files are packed; what they replace stays for readers"
