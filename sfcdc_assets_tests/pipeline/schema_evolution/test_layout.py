"""Columns of a table as the org has them now."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column, arrow_schema, columns_of_arrow_schema
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.schema_evolution.layout import may_lose
from sfcdc_assets.schema_evolution.reshape import fit
from sfcdc_assets_tests.run_contexts import run_on


def no_spark() -> SparkSession:
    raise AssertionError("no file has to be rewritten")


@pytest.mark.parametrize("shape", [None, (40, 0, 0)])
def test_a_column_does_not_keep_the_length_of_a_type_that_it_has_no_more(
    tmp_path: Path, shape: tuple[int, int, int] | None
) -> None:
    """It would be found to have changed again and again, and the entity be read again each time."""
    before = Column("Note__c", ColumnType.STRING, True, "textarea", shape=(32_000, 0, 0))
    now = Column("Note__c", ColumnType.STRING, False, "time" if shape is None else "string", shape=shape)
    warehouse = Warehouse(str(tmp_path))
    table = Table.open_or_create(warehouse, "snapshot/Note__c", arrow_schema([ID_COLUMN, before]))
    fit(table, [ID_COLUMN, now], run_on(warehouse, spark=no_spark))
    _, found = columns_of_arrow_schema(table.schema)
    assert (found.salesforce_type, found.shape, found.large_text) == (now.salesforce_type, shape, False)
    assert not may_lose(found, now)
    version = table.version
    fit(table, [ID_COLUMN, now], run_on(warehouse, spark=no_spark))
    assert table.version == version
