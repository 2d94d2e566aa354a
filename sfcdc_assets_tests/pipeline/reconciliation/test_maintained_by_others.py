"""Any Delta client may compact, order and vacuum the tables at any moment: nothing is known by a file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sfcdc_assets_tests.pipeline.lives.lives_in_process import with_small_pieces
from sfcdc_assets_tests.pipeline.lives.lives_tables import versions_of
from sfcdc_assets_tests.pipeline.lives.quiet_life import ENTITY, QuietLife, quiet
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import compact, compact_and_vacuum, z_order
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

pytestmark = pytest.mark.slow

LAYERS = ("current_state", "history", "text_fields")


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietLife]:
    with quiet(tmp_path, monkeypatch) as life:
        life.sync()
        yield life


@pytest.mark.parametrize("maintain", [compact, z_order, compact_and_vacuum])
def test_updates_after_another_clients_maintenance_supersede_one_version_each(
    life: QuietLife, maintain: Callable[[DeltaTable], None]
) -> None:
    ids = life.ids()[:3]
    for text in ("one", "two"):
        for record_id in ids:
            life.update(record_id, Name=f"{text} {record_id}", Description=text * 600)
            life.catch_up()
    for layer in LAYERS:
        maintain(DeltaTable(life.warehouse.uri(f"{layer}/{ENTITY}")))
    for record_id in ids:
        life.update(record_id, Site="after it")
    life.catch_up()
    life.assert_equal()
    versions = versions_of(life.warehouse, ENTITY)
    assert_versions_follow(versions)
    for record_id in ids:
        names = [row["Name"] for row in versions if row["Id"] == record_id]
        assert len(names) == 4
        assert names.count(f"two {record_id}") == 2, "the last update changed another field"
    before = life.layers()
    life.rebuild()
    assert life.layers() == before


def test_a_snapshot_that_is_put_in_late_goes_back_over_compacted_history(life: QuietLife) -> None:
    landed = life.poll()
    for text in ("one", "two"):
        life.update(life.ids()[0], Name=text)
        life.catch_up()
    for layer in LAYERS:
        compact(DeltaTable(life.warehouse.uri(f"{layer}/{ENTITY}")))
    life.snapshot(watermark_at=landed)
    life.catch_up()
    life.assert_equal()
    assert_versions_follow(versions_of(life.warehouse, ENTITY))
    before = life.layers()
    life.rebuild()
    assert life.layers() == before


def test_changes_are_applied_to_files_that_another_client_has_written_again_with_view_types(
    life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An UPDATE that changes nothing, of each table, with key ranges that a file is read in."""
    with_small_pieces(monkeypatch)
    ids = life.ids()
    for text in ("one", "two"):
        for record_id in ids:
            life.update(record_id, Name=text, Description=f"{text} " * 200)
        life.catch_up()
    for layer, name in (("current_state", "Id"), ("history", "Id"), ("text_fields", "record_id")):
        DeltaTable(life.warehouse.uri(f"{layer}/{ENTITY}")).update({name: name})
    for record_id in ids:
        life.update(record_id, Name="after it", Description="after it " * 200)
    life.catch_up()
    life.assert_equal()
    before = life.layers()
    life.rebuild()
    assert life.layers() == before
