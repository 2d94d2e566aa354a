"""`current_state`: asked about as many records as a storm of gaps, or a load of person accounts, may name, and for all
of its Ids, whatever their lengths."""

from __future__ import annotations

import polars as pl
import pytest

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.version_columns import current_state_schema

COUNT = 40_000


def test_as_many_records_may_be_asked_about_as_one_transaction_can_change(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    table = CurrentState.open_or_create(warehouse, "Account", [ID_COLUMN])
    ids = [f"001Dp000{number:07d}IA'" for number in range(COUNT)]
    schema = current_state_schema([ID_COLUMN])
    rows = pl.DataFrame({"Id": ids, "_position": range(COUNT)}).with_columns(_in_doubt=pl.col("_position") % 2 == 0)
    missing = [pl.lit(None).alias(name) for name in schema.names if name not in rows.columns]
    table.table.append(rows.with_columns(missing).select(schema.names).to_arrow().cast(schema), {}, {})
    free = CurrentState.open_or_create(warehouse, "Account", [ID_COLUMN]).not_suspect([*ids, "unknown"])
    assert free == {record_id: number for number, record_id in enumerate(ids) if number % 2}


@pytest.mark.parametrize(
    "ids",
    [
        [],
        ["001Dp0000000002IA3", "001Dp0000000001IA3"],
        ["Invoice_Statement__c", "Account", "001Dp0000000001IA3"],
        ["b", "", "a"],
    ],
)
def test_living_ids_are_in_order_whatever_their_lengths(tmp_path, ids):
    table = CurrentState.open_or_create(Warehouse(str(tmp_path)), "EntityDefinition", [ID_COLUMN])
    schema = current_state_schema([ID_COLUMN])
    rows = pl.DataFrame({"Id": [*ids, "gone"]}, schema={"Id": pl.String}).with_columns(
        _is_deleted=pl.col("Id") == "gone"
    )
    missing = [pl.lit(None).alias(name) for name in schema.names if name not in rows.columns]
    table.table.append(rows.with_columns(missing).select(schema.names).to_arrow().cast(schema), {}, {})
    found = CurrentState.open_or_create(Warehouse(str(tmp_path)), "EntityDefinition", [ID_COLUMN]).living_ids()
    assert [each.decode() for each in found] == sorted(ids)
