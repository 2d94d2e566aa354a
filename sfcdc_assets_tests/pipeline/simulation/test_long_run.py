"""The long run, short: traffic with holes of every kind, syncs killed on the way, and every table right at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets_tests.pipeline.simulation.long_run import LongRun, run

SHORT = LongRun(
    events=2000,
    holes=0.05,
    kills=2,
    seed=3,
    records=40,
    entities=("Account", "Case"),
    killed_within=(3.0, 12.0),
)


@pytest.mark.soak
def test_traffic_with_holes_and_killed_syncs_ends_with_every_table_equal_to_the_org(tmp_path: Path) -> None:
    print(f"seed {SHORT.seed}")
    figures = run(SHORT, tmp_path)
    for line in figures.lines():
        print(line)
    assert figures.killed == SHORT.kills
    assert figures.events >= SHORT.events
    assert len(figures.holes) >= 6
    # How many depends on where the batches end: what an entity's snapshot answers opens no entries of records.
    assert figures.healed.total() > 0
    assert figures.texts["diff"] > 0
    assert figures.record_requests <= 2 * figures.records_healed, "records are read in batches"
