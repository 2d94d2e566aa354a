"""What the org says of its allowances is kept where whoever looks at the tables finds it."""

from __future__ import annotations

from pathlib import Path

from sfcdc_assets.lake.store.allowance_notes import PATH, read_allowances
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.pipeline.stream import stream


def test_whoever_asks_for_the_allowances_leaves_them_in_the_warehouse(tmp_path: Path) -> None:
    with stream(tmp_path, records=1) as org:
        assert status_of(org.warehouse, load_settings()).allowances == {}
        with open_org(org.warehouse, load_settings()) as connected:
            said = connected.allowances()
        found = status_of(org.warehouse, load_settings()).allowances
        assert {name: (each.maximum, each.remaining) for name, each in found.items()} == {
            name: tuple(said[name])
            for name in ("DailyApiRequests", "DailyBulkV2QueryJobs", "DailyDeliveredPlatformEvents")
        }
        assert read_allowances(org.warehouse)["DailyApiRequests"].asked_at_ms <= clock.now_ms()
        (org.warehouse.folder / PATH).write_bytes(b"[]")
        assert status_of(org.warehouse, load_settings()).allowances == {}
