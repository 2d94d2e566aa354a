"""A table of what objects look like is damaged: nothing else is, and it is no reason to copy the org again."""

from __future__ import annotations

import pytest

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.salesforce.object_shape import SHAPE_TABLES
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline


def damage(pipeline: EmulatedPipeline, table: str) -> None:
    for path in (pipeline.warehouse / table / "_delta_log").glob("*.json"):
        path.write_text("{")


def test_entities_can_be_asked_for_though_a_table_of_what_objects_look_like_is_damaged(
    synced: EmulatedPipeline,
) -> None:
    damage(synced, "objects")
    with open_cut(str(synced.warehouse)).duckdb() as connection:
        assert connection.execute("SELECT count(*) FROM contact").fetchone() == (30,)
    misspelt = sfcdc("sql", "SELECT * FROM contakt")
    assert misspelt.exit_code == 1
    assert "contakt" in misspelt.output
    assert "damaged" not in misspelt.output
    shown = sfcdc("sql", "SHOW TABLES")
    assert shown.exit_code == 0, shown.output
    assert "contact_history" in shown.output


def test_what_mends_a_table_of_what_objects_look_like_is_to_remove_it(synced: EmulatedPipeline) -> None:
    for each in SHAPE_TABLES:
        damage(synced, each.name)
        asked = sfcdc("sql", f"SELECT * FROM {each.name}")
        assert asked.exit_code == 1
        assert f"remove the folder {each.name}: what objects look like is asked again" in asked.output


@pytest.mark.parametrize("table", ["fields", "picklist_values"])
def test_labels_that_cannot_be_read_are_said_and_not_left_out(synced: EmulatedPipeline, table: str) -> None:
    damage(synced, table)
    asked = sfcdc("sql", "--labels", "SELECT * FROM contact")
    assert asked.exit_code == 1
    assert f"remove the folder {table}" in asked.output
