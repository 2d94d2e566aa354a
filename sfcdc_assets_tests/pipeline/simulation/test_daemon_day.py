"""Half an hour of weather under Dagster's own loops: they alone bring every table to what the org is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.daemon_day import DaemonDay, run

SHORT = DaemonDay(hours=0.5, weather=30, records=20)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_daemon_alone_brings_every_table_to_what_the_org_is_after_bad_weather(tmp_path: Path) -> None:
    print(f"seed {SHORT.seed}")
    figures = run(SHORT, tmp_path)
    print("\n".join(figures.lines()))
    assert figures.weather.total() > 5
    assert figures.ticks["SUCCESS"] > 5
    assert figures.runs["salesforce_sync SUCCESS"] > 5
    assert figures.commits["CutNoted"] > 10
