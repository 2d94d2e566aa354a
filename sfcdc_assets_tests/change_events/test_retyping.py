"""Which type an event's value is read with when its field's type has changed: that of the event's own schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.change_events.cell_value import SourceKind, converter, source_kind
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import (
    ID_COLUMN,
    Absence,
    Column,
    TypeBefore,
    arrow_schema,
    columns_of_arrow_schema,
)
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.retyping import Retyping
from sfcdc_assets.change_events.wanted_field import leaves_of_columns

MOMENT = TypeBefore(19, ColumnType.TIMESTAMP, "datetime")
BOX = TypeBefore(44, ColumnType.BOOLEAN, "boolean")
BESIDE = Column("F__before_1", ColumnType.TIMESTAMP, False, "datetime", kept_from="F")
WHILE_A_BOX = (ID_COLUMN, Column("F", ColumnType.BOOLEAN, False, "boolean", types_before=(MOMENT,)), BESIDE)
WHEN_A_TEXT = (ID_COLUMN, Column("F", ColumnType.STRING, False, "picklist", types_before=(MOMENT, BOX)), BESIDE)
EITHER = pytest.mark.parametrize("columns", [WHILE_A_BOX, WHEN_A_TEXT], ids=["live", "in a rebuild"])


LONG = SchemaField(1, "F", "DateTime", "long", None)
BOOLEAN = SchemaField(1, "F", "Boolean", "boolean", None)
TEXT = SchemaField(1, "F", "DynamicEnum", "string", None)


def read(columns: Sequence[Column], position: int, leaf: SchemaField, value: Any) -> dict[str, Any]:
    """What the value of an event with such a schema becomes, by column."""
    retyping = Retyping(columns, position, {1: leaf})
    header = ChangeEventHeader("X", ("x",), ChangeType.CREATE, "", "t", 1, 0, 0, "u")
    cells = retyping.today(DecodedEvent(header, [(1, value)], frozenset())).cells
    return {columns[number].name: cell for number, cell in cells}


@EITHER
@pytest.mark.parametrize("position", [18, 19, 20, 43])
def test_an_event_of_an_older_schema_is_read_with_its_own_type_whenever_it_comes(
    columns: Sequence[Column], position: int
) -> None:
    """It waits while the field becomes something else, and comes after the position from which on it is that."""
    assert read(columns, position, LONG, 5) == {"F": None, "F__before_1": 5}


def test_an_event_of_the_schema_of_its_position_goes_on_from_there() -> None:
    assert read(WHILE_A_BOX, 21, BOOLEAN, True) == {"F": True}
    assert read(WHEN_A_TEXT, 21, BOOLEAN, True) == {"F": "true"}
    assert read(WHEN_A_TEXT, 45, TEXT, "A") == {"F": "A"}


def test_a_type_that_the_field_has_again_is_the_one_of_its_position() -> None:
    """At first a text, then a box, then a text again: what was written before, or as, the box became one of before."""
    text = TypeBefore(19, ColumnType.STRING, "string")
    beside = replace(BESIDE, type=ColumnType.STRING, salesforce_type="string")
    box = (ID_COLUMN, replace(WHILE_A_BOX[1], types_before=(text,)), beside)
    again = (ID_COLUMN, replace(WHEN_A_TEXT[1], types_before=(text, BOX)), beside)
    for columns in (box, again):
        assert read(columns, 20, TEXT, "no box") == {"F": None, "F__before_1": "no box"}
    assert read(again, 44, TEXT, "no box") == {"F": "no box"}


def test_an_event_whose_schema_does_not_tell_has_the_type_of_its_position() -> None:
    assert [Retyping(WHEN_A_TEXT, at, {}).columns[1].type for at in (18, 19, 43, 44)] == [
        ColumnType.TIMESTAMP,
        ColumnType.BOOLEAN,
        ColumnType.BOOLEAN,
        ColumnType.STRING,
    ]


@pytest.mark.parametrize("doc", ["DateOnly", "DateTime", "", "TimeOnly"])
def test_what_kind_of_time_a_long_is_the_position_says_and_no_doc(doc: str) -> None:
    """Dates and times are longs, and the id of a schema is the same for all of them: its doc may be another one's."""
    date = TypeBefore(19, ColumnType.DATE, "date")
    columns = (ID_COLUMN, Column("F", ColumnType.TIMESTAMP, False, "datetime", types_before=(date,)))
    leaf = SchemaField(1, "F", doc, "long", None)
    for position, of_then in ((18, SourceKind.DATE), (19, SourceKind.DATETIME)):
        column = Retyping(columns, position, {1: leaf}).columns[1]
        assert source_kind(leaf, column) is of_then


def test_an_event_from_before_a_column_came_says_nothing_of_it() -> None:
    """Nobody applied it to such a column; and if the field was hidden it has null, which is not its value."""
    columns = (ID_COLUMN, Column("F", ColumnType.STRING, came_at=19), Column("G", ColumnType.STRING))
    layout = [SchemaField(0, "ChangeEventHeader", "", "string", None), TEXT, replace(TEXT, position=2, name="G")]
    assert {at: sorted(leaves_of_columns(layout, Retyping(columns, at, {}).columns)) for at in (0, 18, 19)} == {
        0: [2],
        18: [2],
        19: [1, 2],
    }


def test_a_date_that_has_a_time_of_day_is_refused() -> None:
    date = converter(SchemaField(1, "F", "DateOnly", "long", None), Column("F", ColumnType.DATE, False, "date"))
    assert date(86_400_000) == 1
    with pytest.raises(ValueError, match="time of day"):
        date(86_400_001)


def test_the_table_says_since_when_it_has_a_column() -> None:
    columns = (ID_COLUMN, Column("F", ColumnType.STRING, came_at=19))
    assert [column.came_at for column in columns_of_arrow_schema(arrow_schema(columns))] == [0, 19]


def test_the_table_says_which_types_a_field_had() -> None:
    assert columns_of_arrow_schema(arrow_schema(WHEN_A_TEXT))[1].types_before == (MOMENT, BOX)


def test_the_table_says_when_the_object_lacked_a_field() -> None:
    absences = (Absence(3, 6), Absence(9))
    columns = (ID_COLUMN, Column("F", ColumnType.STRING, absences=absences), Column("G", ColumnType.STRING))
    found = columns_of_arrow_schema(arrow_schema(columns))
    assert [column.absences for column in found] == [(), absences, ()]
    assert [column.is_absent for column in found] == [False, True, False]
