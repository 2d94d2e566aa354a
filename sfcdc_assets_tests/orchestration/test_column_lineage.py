"""Lineage of columns: it names assets that exist and stays cheap on the widest objects."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
from dagster_shared.serdes import serialize_value

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.definitions import ASSETS, defs
from sfcdc_assets.lake.tables.gap_reconciliation import LEDGER
from sfcdc_assets.lake.tables.raw_events import RAW_EVENTS
from sfcdc_assets.orchestration.assets import column_lineage
from sfcdc_assets.orchestration.table_metadata import table_metadata
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema

KEYS, CHANNEL = ASSETS.keys, "/data/ChangeEvents"
WIDEST = tuple(Column(f"A_field_with_a_long_name_{number}__c", ColumnType.STRING) for number in range(800))
STATE, HISTORY = current_state_schema([ID_COLUMN, *WIDEST]), history_schema([ID_COLUMN, *WIDEST])
NAMES = [column.name for column in WIDEST]
LINEAGES: list[tuple[dg.TableColumnLineage, pa.Schema]] = [
    (column_lineage.of_raw_events(KEYS, CHANNEL), RAW_EVENTS),
    (column_lineage.of_text_fields(KEYS), TEXT_FIELDS),
    (column_lineage.of_gap_reconciliation(KEYS), LEDGER),
    (column_lineage.of_current_state(KEYS), STATE),
    (column_lineage.of_history(KEYS), HISTORY),
    (column_lineage.of_entity(KEYS, CHANNEL, "Account", STATE), STATE),
]
COLUMNS = {"raw_events": {*RAW_EVENTS.names}, "gap_reconciliation": {*LEDGER.names}, "current_state": {*STATE.names}}


def test_each_source_is_an_asset_of_the_graph_and_a_column_it_has() -> None:
    known = {spec.key for spec in defs.resolve_all_asset_specs()}
    for lineage, schema in LINEAGES:
        assert lineage.deps_by_column.keys() <= {*schema.names}
        for dep in [dep for deps in lineage.deps_by_column.values() for dep in deps]:
            assert dep.asset_key in known
            assert dep.column_name in COLUMNS.get(dep.asset_key.path[-1], {dep.column_name})


def test_a_fields_way_leads_from_the_channel_to_the_entitys_own_asset_and_what_all_have_over_the_layers() -> None:
    (raw, _), _, _, (state, _), (history, _), (own, _) = LINEAGES
    field, channel = NAMES[7], KEYS.of_channel(CHANNEL)
    assert dg.TableColumnDep(asset_key=channel, column_name=f"Account.{field}") in own.deps_by_column[field]
    assert [dep.asset_key for dep in own.deps_by_column["_position"]] == [KEYS.current_state]
    assert own.deps_by_column.keys() == {*STATE.names}
    assert [dep.column_name for dep in state.deps_by_column["_position"]] == ["position"]
    assert [dep.asset_key for dep in history.deps_by_column["_position"]] == [KEYS.current_state]
    assert [dep.column_name for dep in raw.deps_by_column["change_type"]] == ["ChangeEventHeader.changeType"]
    own_of_one = {*NAMES}
    assert not own_of_one & {*state.deps_by_column, *history.deps_by_column}, "a layer's page shows no entity's own"
    assert state.deps_by_column.keys() == {*STATE.names} - {"_batch", "_first_batch", *NAMES}
    assert history.deps_by_column.keys() == {*HISTORY.names} - {"_batch", *NAMES}


def test_the_page_of_a_layer_shows_the_columns_that_all_entities_have() -> None:
    for spec in defs.resolve_all_asset_specs():
        if spec.key in (KEYS.current_state, KEYS.history, KEYS.snapshot):
            names = [column.name for column in spec.metadata["dagster/column_schema"].columns]
            assert names[0] == "Id"
            assert all(name.startswith("_") for name in names[1:])
            assert len(names) > 3


def test_a_materialization_of_800_columns_stays_small() -> None:
    for lineage, schema in LINEAGES:
        whole = table_metadata("uri", "name", schema, lineage)
        written = serialize_value(dg.AssetMaterialization("a", metadata=whole))
        print(f"{len(schema):4} columns, {len(written):,} bytes, lineage {len(serialize_value(lineage)):,}")
        assert len(written) < 600_000
