"""Lineage of columns: it names assets that exist and stays cheap on the widest objects."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
from dagster_shared.serdes import serialize_value

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.definitions import defs
from sfcdc_assets.lake.tables.gap_reconciliation import LEDGER
from sfcdc_assets.lake.tables.raw_events import RAW_EVENTS
from sfcdc_assets.orchestration.assets import column_lineage
from sfcdc_assets.orchestration.assets.specs import channel_key
from sfcdc_assets.orchestration.table_metadata import table_metadata
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema

WIDEST = tuple(Column(f"A_field_with_a_long_name_{number}__c", ColumnType.STRING) for number in range(800))
STATE, HISTORY = current_state_schema(WIDEST), history_schema(WIDEST)
NAMES = [column.name for column in WIDEST]
LINEAGES: list[tuple[dg.TableColumnLineage, pa.Schema]] = [
    (column_lineage.of_raw_events("/data/ChangeEvents", "Account", NAMES), RAW_EVENTS),
    (column_lineage.of_text_fields(), TEXT_FIELDS),
    (column_lineage.of_gap_reconciliation(), LEDGER),
    (column_lineage.of_current_state(STATE), STATE),
    (column_lineage.of_history(HISTORY), HISTORY),
]
COLUMNS = {"raw_events": {*RAW_EVENTS.names}, "gap_reconciliation": {*LEDGER.names}, "current_state": {*STATE.names}}


def test_each_source_is_an_asset_of_the_graph_and_a_column_it_has() -> None:
    known = {spec.key for spec in defs.resolve_all_asset_specs()}
    for lineage, schema in LINEAGES:
        assert lineage.deps_by_column.keys() <= {*schema.names}
        for dep in [dep for deps in lineage.deps_by_column.values() for dep in deps]:
            assert dep.asset_key in known
            assert dep.column_name in COLUMNS.get(dep.asset_key.path[-1], {dep.column_name})


def test_a_fields_way_leads_from_the_channel_over_raw_events_to_every_table() -> None:
    (raw, _), _, _, (state, _), (history, _) = LINEAGES
    field = NAMES[7]
    channel = channel_key("/data/ChangeEvents")
    assert dg.TableColumnDep(asset_key=channel, column_name=f"Account.{field}") in raw.deps_by_column["payload"]
    assert {dep.column_name for dep in state.deps_by_column[field]} == {"payload", field}
    assert [dep.column_name for dep in history.deps_by_column[field]] == [field]
    assert state.deps_by_column.keys() == {*STATE.names} - {"_batch"}
    assert history.deps_by_column.keys() == {*HISTORY.names} - {"_batch"}


def test_a_materialization_of_800_columns_stays_small() -> None:
    for lineage, schema in LINEAGES:
        whole = table_metadata("uri", "name", 1, schema, lineage=lineage)
        written = serialize_value(dg.AssetMaterialization("a", metadata=whole))
        print(f"{len(schema):4} columns, {len(written):,} bytes, lineage {len(serialize_value(lineage)):,}")
        assert len(written) < 600_000
