"""What a process that lands day after day costs stays what it was, and the documentation's picture shows its points."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sfcdc_assets.lake.maintenance import pack_by_count
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.lake.maintenance.landing_month import ENTITIES, PICTURE, POINTS, Day, LandingMonth, picture

MANY = 60


def test_files_are_as_many_every_evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_by_count, "MANY_FILES", MANY)
    warehouse = Warehouse(str(tmp_path))
    ticks = 30
    days = list(LandingMonth(warehouse, ticks).days(5))
    assert max(day.files for day in days) < MANY + 13 * len(ENTITIES), "what came since the last look"
    assert days[-1].files <= days[1].files + len(days), "what is packed grows by a file a day at most"
    assert days[-1].log_files <= days[1].log_files + 2, "old entries go every night"
    assert RawEvents.open(warehouse).table.count() == len(days) * ticks * len(ENTITIES)


def test_the_picture_of_the_documentation_is_that_of_its_points_which_grow_by_half_at_most() -> None:
    days = [Day(**day) for day in json.loads(POINTS.read_text())["days"]]
    assert PICTURE.read_text() == picture(days)
    assert ElementTree.fromstring(PICTURE.read_text()).tag.endswith("svg")
    assert len(days) == 30
    first, last = days[1:8], days[-7:]
    for field in ("files", "log_files", "memory_mb", "landing_ms", "looking_ms"):
        before, after = (sorted(getattr(day, field) for day in week)[3] for week in (first, last))
        assert after <= 1.5 * before, f"{field}: {before} in the first week, {after} in the last"
