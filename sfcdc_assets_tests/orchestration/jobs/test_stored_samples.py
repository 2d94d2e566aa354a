"""Samples of rows leave Dagster's event log, in every file of it, and the materializations stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.orchestration.jobs.stored_samples import forget_samples_of
from sfcdc_assets.orchestration.table_metadata import SAMPLE, rows_value
from sfcdc_assets_tests.orchestration.jobs.test_event_log import OTHERS, OURS

SECRET = "ada.lovelace@example.com"


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def shown(key: dg.AssetKey, entity: str, sample: dg.MetadataValue) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(key, partition=entity, metadata={"rows": 7, SAMPLE: sample, "position": 3})


def materialize(instance: dg.DagsterInstance, *materializations: dg.AssetMaterialization) -> None:
    @dg.op(out=dg.Out(dg.Nothing))
    def work() -> Iterator[dg.AssetMaterialization | dg.Output[None]]:
        yield from materializations
        yield dg.Output(None)

    dg.GraphDefinition(name="salesforce_sync", node_defs=[work]).to_job().execute_in_process(instance=instance)


def files_with(folder: Path, text: str) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file() and text.encode() in each.read_bytes()]


def test_samples_are_in_no_file_any_more_and_the_materializations_stay(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    table = rows_value(("Id", "Email"), [("003", SECRET)])
    materialize(
        instance,
        shown(ASSETS.keys.current_state, "Contact", table),
        shown(ASSETS.keys.current_state, "Lead", dg.MetadataValue.md(f"| Email |\n| --- |\n| {SECRET} |")),
    )
    instance.report_runless_asset_event(shown(ASSETS.keys.raw_events, "Contact", table))
    assert files_with(tmp_path, SECRET)
    assert forget_samples_of(instance, OURS) == 3
    assert files_with(tmp_path, SECRET) == []
    for key, entities in ((ASSETS.keys.current_state, {"Contact", "Lead"}), (ASSETS.keys.raw_events, {"Contact"})):
        assert instance.get_materialized_partitions(key) == entities
        records = instance.fetch_materializations(key, limit=10).records
        kept = [record.asset_materialization for record in records]
        assert [list(each.metadata) for each in kept if each is not None] == [["rows", "position"]] * len(entities)
    assert forget_samples_of(instance, OURS) == 0


def test_samples_of_another_code_location_stay(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    materialize(instance, shown(ASSETS.keys.current_state, "Contact", rows_value(("Email",), [(SECRET,)])))
    assert forget_samples_of(instance, OTHERS) == 0
    assert files_with(tmp_path, SECRET)
