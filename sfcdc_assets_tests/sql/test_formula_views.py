"""Formula fields in the views: beside the columns of current rows, and newer than what an event carried."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.formulas.formula_columns import AS_OF, row_schema
from sfcdc_assets.lake.delta.readable_table import readable_now
from sfcdc_assets.lake.tables.current_state import CurrentState, name_of
from sfcdc_assets.lake.tables.formula_values import FormulaValues
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.entity_views import EntityTables, entity_views
from sfcdc_assets.sql.warehouse_files import location

CARRIED = Column("Carried__c", ColumnType.DOUBLE, salesforce_type="double")
READ = Column("Read__c", ColumnType.STRING, salesforce_type="string")
NOON = datetime(2025, 2, 3, 12, tzinfo=UTC)


@pytest.fixture
def tables(tmp_path: Path) -> EntityTables:
    """A table whose events carry a formula; of its records one was read, one was not."""
    warehouse = Warehouse(str(tmp_path))
    current = CurrentState.open_or_create(warehouse, "Account", [ID_COLUMN, CARRIED]).table
    rows = [{"Id": each, "Carried__c": 1.0, "_is_deleted": False} for each in ("read", "unread")]
    current.append(pa.Table.from_pylist(rows, schema=current.schema), {}, {})
    columns = (ID_COLUMN, CARRIED, READ)
    read = [{"Id": "read", "Carried__c": None, "Read__c": "x", AS_OF: NOON}]
    values = FormulaValues.open_or_create(warehouse, "Account", columns)
    values.commit(pa.Table.from_pylist(read, schema=row_schema(columns)), [], {})
    found, formulas = readable_now(warehouse, name_of("Account")), readable_now(warehouse, values.table.name)
    assert found is not None
    return EntityTables("Account", {"current_state": found}, formulas=formulas)


def test_what_was_read_stands_in_the_place_of_what_an_event_carried(tables: EntityTables, tmp_path: Path) -> None:
    *_, rows = entity_views(tables, partial(location, Warehouse(str(tmp_path))))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(rows.create)
        asked = 'SELECT "Id", "Carried__c", "Read__c", _formulas_as_of IS NULL FROM account ORDER BY 1'
        found = connection.execute(asked).fetchall()
        names = [row[0] for row in connection.execute("DESCRIBE account").fetchall()]
    assert found == [("read", None, "x", False), ("unread", 1.0, None, True)]
    assert names.count("Carried__c") == 1
    assert tables.formula_columns == ("Read__c", AS_OF)
    assert tables.carried_formulas == ("Carried__c",)
