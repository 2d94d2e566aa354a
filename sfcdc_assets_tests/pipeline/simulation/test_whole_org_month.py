"""The month of a whole org, short: a day of a few objects with weather, every table right at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.whole_org_month import WholeOrgMonth, run

SHORT = WholeOrgMonth(days=1, polled=6, busy=2, streamed=2, seconds=3600, work_hours=12, seed=3)


@pytest.mark.soak
def test_polled_objects_beside_streamed_ones_equal_the_org_after_a_day_of_weather(tmp_path: Path) -> None:
    print(f"seed {SHORT.seed}")
    figures = run(SHORT, tmp_path)
    for line in figures.lines():
        print(line)
    assert figures.weather
    assert figures.ages
    assert figures.found_after
    assert max(figures.found_after) < 48, "by the count of the next day, and the run after it"
