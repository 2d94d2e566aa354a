"""Formula values in their table: rows are replaced by Id, what is remembered comes with them, and a plan's facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.formulas.formula_columns import AS_OF, row_schema
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.tables.earlier_formula_values import EarlierFormulaValues
from sfcdc_assets.lake.tables.formula_values import FormulaValues, values_of_formulas
from sfcdc_assets.lake.warehouse import Warehouse

TOTAL = Column("Total__c", ColumnType.DOUBLE, salesforce_type="currency")
DAY = Column("Day__c", ColumnType.DATE, salesforce_type="date")
COLUMNS = (ID_COLUMN, TOTAL)
NOON = datetime(2025, 2, 3, 12, tzinfo=UTC)
MIDNIGHT = datetime(2025, 2, 3, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def read(at: datetime, columns: tuple[Column, ...] = COLUMNS, **totals: float | None) -> pa.Table:
    rows = [{"Id": name, "Total__c": total, AS_OF: at} for name, total in totals.items()]
    return pa.Table.from_pylist(rows, schema=row_schema(columns))


def opened(warehouse: Warehouse, columns: tuple[Column, ...] = COLUMNS) -> FormulaValues:
    return FormulaValues.open_or_create(warehouse, "Account", columns)


def totals(warehouse: Warehouse) -> dict[str, float | None]:
    return {row["Id"]: row["Total__c"] for row in opened(warehouse).table.rows(["Id", "Total__c"])}


def test_there_is_no_table_before_the_first_read(warehouse: Warehouse) -> None:
    assert FormulaValues.open(warehouse, "Account") is None
    values = opened(warehouse)
    assert (values.followed("Account"), values.fingerprint, values.columns) == (0, None, COLUMNS)


def test_rows_replace_those_of_their_records_and_positions_come_with_them(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON - HOUR, a=1.0, b=2.0, c=3.0), [], {"Account": 5, "User": 3})
    opened(warehouse).commit(read(NOON, a=None, d=4.0), ["c"], {"Account": 9})
    assert totals(warehouse) == {"a": None, "b": 2.0, "d": 4.0}
    values = opened(warehouse)
    assert (values.followed("Account"), values.followed("User"), values.followed("Contact")) == (9, 3, 0)
    assert values.known(["a", "c", "d", "z"]) == {"a", "d"}


def test_positions_move_without_rows(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON), [], {"Account": 5})
    assert opened(warehouse).followed("Account") == 5


def test_of_two_writers_one_is_refused(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON - HOUR, a=1.0), [], {"Account": 1})
    one, other = opened(warehouse), opened(warehouse)
    one.commit(read(NOON, a=2.0), [], {"Account": 2})
    with pytest.raises(ConcurrentCommit):
        other.commit(read(NOON, a=3.0), [], {"Account": 2})
    assert totals(warehouse) == {"a": 2.0}


def test_a_whole_read_ends_by_removing_what_it_has_not_brought(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON - HOUR, a=1.0, b=2.0, gone=3.0), [], {})
    opened(warehouse).commit(read(NOON, a=4.0), [], {})
    opened(warehouse).commit(read(NOON + HOUR, b=5.0), [], {})
    assert opened(warehouse).fingerprint is None
    assert opened(warehouse).end_whole_read(NOON, {"Account": 8}, 77) == 1
    assert totals(warehouse) == {"a": 4.0, "b": 5.0}
    assert (opened(warehouse).fingerprint, opened(warehouse).followed("Account")) == (77, 8)
    assert opened(warehouse).end_whole_read(NOON, {"Account": 9}, 78) == 0
    assert (opened(warehouse).fingerprint, opened(warehouse).followed("Account")) == (78, 9)


def test_a_new_formula_is_a_new_column_that_is_null(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON, a=1.0), [], {})
    wider = opened(warehouse, (*COLUMNS, DAY))
    assert {column.name for column in wider.columns} == {"Id", "Total__c", "Day__c"}
    assert wider.table.rows(["Id", "Total__c", "Day__c"]) == [{"Id": "a", "Total__c": 1.0, "Day__c": None}]


def test_a_plan_is_given_what_is_old(warehouse: Warehouse) -> None:
    for days, name in ((30, "a"), (1, "b"), (0, "c")):
        opened(warehouse).commit(read(NOON - timedelta(days=days), **{name: 1.0}), [], {})
    found = opened(warehouse).values(5, now=NOON, day_began=MIDNIGHT, too_old=NOON - timedelta(days=7), most=2)
    assert (found.records, found.unread, found.before_today, found.too_old) == (5, 2, 2, 1)
    assert found.oldest == (("a", NOON - timedelta(days=30)), ("b", NOON - timedelta(days=1)))


def test_what_a_clock_that_was_ahead_has_read_is_old_when_it_was_set_back(warehouse: Warehouse) -> None:
    opened(warehouse).commit(read(NOON + timedelta(days=30), a=1.0), [], {})
    found = opened(warehouse).values(1, now=NOON, day_began=MIDNIGHT, too_old=NOON - timedelta(days=7), most=2)
    assert (found.before_today, found.too_old) == (1, 1)
    assert [record_id for record_id, _ in found.oldest] == ["a"]


def test_a_formula_that_was_made_again_in_another_case_takes_its_columns_place_and_is_read_again(
    warehouse: Warehouse,
) -> None:
    """Two columns that differ by case alone are refused, in this table and in that of earlier values."""
    values_of_formulas(warehouse, "Account", COLUMNS, 1, {}, NOON).commit(read(NOON, a=1.0), [], {})
    EarlierFormulaValues(warehouse, "Account", row_schema(COLUMNS)).keep(read(NOON, a=1.0), read(NOON + HOUR, a=2.0))
    recased = (ID_COLUMN, replace(TOTAL, name="TOTAL__c"))
    values = values_of_formulas(warehouse, "Account", recased, 2, {}, NOON + HOUR)
    assert [column.name for column in values.columns] == ["Id", "TOTAL__c"]
    assert values.table.count() == 0
    EarlierFormulaValues(warehouse, "Account", row_schema(recased))
