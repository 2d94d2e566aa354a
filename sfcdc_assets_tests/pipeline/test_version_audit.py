"""`sfcdc verify` looks at history too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sfcdc_assets.pipeline.audits import version_audit
from sfcdc_assets.pipeline.audits.version_audit import broken_histories
from sfcdc_assets_tests.pipeline.quiet_life import ENTITY, QuietLife, quiet


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    """Three records with three versions each."""
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        for name in ("one", "two"):
            for record_id in life.ids()[:3]:
                life.update(record_id, Name=name)
            life.catch_up()
        yield life


def history(life: QuietLife) -> DeltaTable:
    return DeltaTable(life.warehouse.uri(f"history/{ENTITY}"))


def test_sound_histories_are_not_named(life: QuietLife, monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken_histories(life.warehouse, ENTITY) == []
    monkeypatch.setattr(version_audit, "ROWS_AT_ONCE", 1)
    assert broken_histories(life.warehouse, ENTITY) == []


def test_a_version_that_is_missing_is_found(life: QuietLife) -> None:
    record_id = life.ids()[1]
    history(life).delete(f"\"Id\" = '{record_id}' and \"Name\" = 'one'")
    assert broken_histories(life.warehouse, ENTITY) == [record_id]


def test_a_version_that_stands_twice_is_found(life: QuietLife) -> None:
    record_id = life.ids()[2]
    history(life).update(updates={"_valid_to": "_valid_from"}, predicate=f"\"Id\" = '{record_id}' and \"Name\" = 'one'")
    assert broken_histories(life.warehouse, ENTITY) == [record_id]
