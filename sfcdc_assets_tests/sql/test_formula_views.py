"""Formula fields in the views: beside the columns of current rows, and newer than what an event carried."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.formulas.formula_columns import AS_OF, row_schema
from sfcdc_assets.lake.delta.readable_table import readable_now
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables.current_state import CurrentState, name_of
from sfcdc_assets.lake.tables.earlier_formula_values import EarlierFormulaValues
from sfcdc_assets.lake.tables.formula_values import FormulaValues
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.sql.entity_views import EntityTables, entity_views
from sfcdc_assets.sql.text import Rows, relation
from sfcdc_assets.sql.warehouse_files import location
from sfcdc_assets.timeline.version_columns import history_schema

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


def test_a_version_has_the_last_values_that_were_read_while_it_was_the_records(tmp_path: Path) -> None:
    warehouse, hour = Warehouse(str(tmp_path)), timedelta(hours=1)
    current = CurrentState.open_or_create(warehouse, "Account", [ID_COLUMN, CARRIED]).table
    row = {"Id": "read", "Carried__c": 1.0, "_is_deleted": False, "_change_type": "UPDATE", "_valid_from": NOON}
    current.append(pa.Table.from_pylist([row], schema=current.schema), {}, {})
    past = Table.open_or_create(warehouse, "history/Account", history_schema([ID_COLUMN, CARRIED]))
    begins = [NOON - 3 * hour, NOON - 2 * hour, NOON - hour]
    versions = [
        {**row, "_valid_from": at, "_valid_to": at + hour, "Carried__c": float(number)}
        for number, at in enumerate(begins)
    ]
    past.append(pa.Table.from_pylist(versions, schema=past.schema), {}, {})
    columns = (ID_COLUMN, READ)
    values = FormulaValues.open_or_create(warehouse, "Account", columns)
    read_at = [begins[0] + hour / 4, begins[0] + hour / 2, begins[2] + hour / 2, NOON + hour]
    for number, at in enumerate(read_at):
        rows = pa.Table.from_pylist(
            [{"Id": "read", "Read__c": f"value {number}", AS_OF: at}], schema=row_schema(columns)
        )
        earlier = EarlierFormulaValues(warehouse, "Account", row_schema(columns))
        values = FormulaValues.open_or_create(warehouse, "Account", columns)
        earlier.keep(values.rows_of(["read"]), rows)
        values.commit(rows, [], {})
    layers = ("current_state", "history", "formula_values", "earlier_formula_values")
    opened = {each: found for each in layers if (found := readable_now(warehouse, f"{each}/Account")) is not None}
    formulas, kept = opened.pop("formula_values"), opened.pop("earlier_formula_values")
    of = EntityTables("Account", opened, formulas=formulas, earlier_formulas=kept)
    shown = partial(relation, location=partial(location, warehouse))
    assert reported(of, shown) == [
        ("value 1", read_at[1]),
        (None, None),
        ("value 2", read_at[2]),
        ("value 3", read_at[3]),
    ]
    early = read_at[0] + timedelta(minutes=1)
    assert reported(of, shown, early) == [("value 0", read_at[0])], "what was read later was not known then"


def reported(of: EntityTables, rows: Rows, at: datetime | None = None) -> list[tuple[str | None, datetime | None]]:
    """What the view of history says of the formula, version by version, and as of when."""
    first, *_ = entity_views(of, rows, at)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(first.create)
        return connection.execute(
            'SELECT "Read__c", _formulas_as_of FROM account_history ORDER BY _valid_from'
        ).fetchall()


def test_what_was_read_stands_in_the_place_of_what_an_event_carried(tables: EntityTables, tmp_path: Path) -> None:
    *_, rows = entity_views(tables, partial(relation, location=partial(location, Warehouse(str(tmp_path)))))
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
