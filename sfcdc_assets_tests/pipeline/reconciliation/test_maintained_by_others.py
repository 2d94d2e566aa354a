"""Any Delta client may compact, order and vacuum the tables at any moment: nothing is known by a file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from sfcdc_assets_tests.pipeline.reconciliation.outside_client import compact, compact_and_vacuum, z_order
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import with_small_pieces
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, QuietPipeline, quiet
from sfcdc_assets_tests.pipeline.simulation.read_tables import versions_of
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow

pytestmark = pytest.mark.slow

LAYERS = ("current_state", "history", "text_fields")


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuietPipeline]:
    with quiet(tmp_path, monkeypatch) as pipeline:
        pipeline.sync()
        yield pipeline


@pytest.mark.parametrize("maintain", [compact, z_order, compact_and_vacuum])
def test_updates_after_another_clients_maintenance_supersede_one_version_each(
    pipeline: QuietPipeline, maintain: Callable[[DeltaTable], None]
) -> None:
    ids = pipeline.ids()[:3]
    for text in ("one", "two"):
        for record_id in ids:
            pipeline.update(record_id, Name=f"{text} {record_id}", Description=text * 600)
            pipeline.catch_up()
    for layer in LAYERS:
        maintain(DeltaTable(pipeline.warehouse.uri(f"{layer}/{ENTITY}")))
    for record_id in ids:
        pipeline.update(record_id, Site="after it")
    pipeline.catch_up()
    pipeline.assert_equal()
    versions = versions_of(pipeline.warehouse, ENTITY)
    assert_versions_follow(versions)
    for record_id in ids:
        names = [row["Name"] for row in versions if row["Id"] == record_id]
        assert len(names) == 4
        assert names.count(f"two {record_id}") == 2, "the last update changed another field"
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before


def test_a_snapshot_that_is_put_in_late_goes_back_over_compacted_history(pipeline: QuietPipeline) -> None:
    landed = pipeline.poll()
    for text in ("one", "two"):
        pipeline.update(pipeline.ids()[0], Name=text)
        pipeline.catch_up()
    for layer in LAYERS:
        compact(DeltaTable(pipeline.warehouse.uri(f"{layer}/{ENTITY}")))
    pipeline.snapshot(watermark_at=landed)
    pipeline.catch_up()
    pipeline.assert_equal()
    assert_versions_follow(versions_of(pipeline.warehouse, ENTITY))
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before


def test_changes_are_applied_to_files_that_another_client_has_written_again_with_view_types(
    pipeline: QuietPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An UPDATE that changes nothing, of each table, with key ranges that a file is read in."""
    with_small_pieces(monkeypatch)
    ids = pipeline.ids()
    for text in ("one", "two"):
        for record_id in ids:
            pipeline.update(record_id, Name=text, Description=f"{text} " * 200)
        pipeline.catch_up()
    for layer, name in (("current_state", "Id"), ("history", "Id"), ("text_fields", "record_id")):
        DeltaTable(pipeline.warehouse.uri(f"{layer}/{ENTITY}")).update({name: name})
    for record_id in ids:
        pipeline.update(record_id, Name="after it", Description="after it " * 200)
    pipeline.catch_up()
    pipeline.assert_equal()
    before = pipeline.layers()
    pipeline.rebuild()
    assert pipeline.layers() == before
