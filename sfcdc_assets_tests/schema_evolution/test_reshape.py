"""A table rewritten for changed types, and one rebuilt from old events, hold the same; nothing known is lost."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import assume, given

from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column, arrow_schema, columns_of_arrow_schema
from sfcdc_assets.change_events.retyping import Retyping, kept_name
from sfcdc_assets.change_events.type_conversion import convert, widens
from sfcdc_assets.schema_evolution.evolve_tables import reshape_of
from sfcdc_assets_tests.change_events.test_type_conversion import VALUES


def after_change(columns: tuple[Column, ...], new: ColumnType, position: int) -> tuple[Column, ...]:
    """The columns when the field's type becomes `new`, as the pipeline lays them out."""
    field = columns[1]
    changed = (columns[0], replace(field, type=new), *columns[2:])
    if field.type is new or widens(field.type, new):
        return changed
    return (
        *changed,
        replace(field, name=kept_name("F", len(columns) - 1), kept_from="F", kept_until=position, kept_for=new),
    )


@st.composite
def histories(draw):
    """Types of a field one after another, and values written at positions while it had them."""
    types = draw(st.lists(st.sampled_from(list(ColumnType)), min_size=1, max_size=4))
    columns = (ID_COLUMN, Column("F", types[0]))
    layouts, written = [columns], []
    for number, type_ in enumerate(types):
        if number:
            columns = after_change(columns, type_, number * 10)
            layouts.append(columns)
        written += [
            (number * 10 + checkpoint, number, value)
            for checkpoint, value in enumerate(draw(st.lists(st.none() | VALUES[type_], max_size=4)))
        ]
    return types, layouts, written


def became_a_text_by_way_of_a_time(types):
    """A date that became a time and then a text, in place both times: the table has the text of the time, and an old
    event, which knows nothing of it, that of the date."""
    following = iter(types)
    return all(each in following for each in (ColumnType.DATE, ColumnType.TIMESTAMP, ColumnType.STRING))


def event(cells):
    """A create that sets these cells."""
    header = ChangeEventHeader("X", ("x",), ChangeType.CREATE, "", "t", 1, 0, 0, "u")
    return DecodedEvent(header, cells, frozenset())


def rows(values, columns):
    """A table of the first layout's columns with these values in F; dates and timestamps as their numbers."""
    schema = arrow_schema(columns)
    type_ = schema.field("F").type
    array = pa.array(values, pa.int32() if pa.types.is_date32(type_) else None) if values else pa.array([], type_)
    if pa.types.is_timestamp(type_):
        array = pa.array(values, pa.int64())
    ids = pa.array([str(number) for number in range(len(values))], pa.string())
    return pa.table({"Id": ids, "F": array.cast(type_)}, schema=schema.remove(0).insert(0, schema.field("Id")))


def cells_of(table, columns, number):
    """A row's values as cells."""
    found = {}
    for index, column in enumerate(columns):
        value = table.column(column.name)[number]
        if column.type is ColumnType.DATE:
            found[index] = value.cast(pa.int32()).as_py()
        else:
            found[index] = value.cast(pa.int64()).as_py() if column.type is ColumnType.TIMESTAMP else value.as_py()
    return found


@given(histories())
def test_rewriting_step_by_step_is_reading_old_events_with_the_columns_of_today(history):
    types, layouts, written = history
    assume(not became_a_text_by_way_of_a_time(types))
    today = layouts[-1]
    for position, number, value in written:
        table = rows([value], layouts[number][:2])
        table = pa.table(
            {
                f.name: table[f.name] if f.name in table.column_names else pa.nulls(1, f.type)
                for f in arrow_schema(layouts[number])
            }
        )
        for before, after in zip(layouts[number:], layouts[number + 1 :], strict=False):
            reshape = reshape_of(arrow_schema(before), before, arrow_schema(after), after)
            table = reshape.rows(table)
        retyping = Retyping(today, position)
        decoded = retyping.today(event([(1, convert(value, types[number], retyping.columns[1].type))]))
        rewritten = cells_of(table, today, 0)
        for index, cell in decoded.cells:
            assert rewritten[index] == cell
        assert {index for index, value in rewritten.items() if value is not None} - {0} <= {i for i, _ in decoded.cells}


@given(histories())
def test_every_value_is_in_the_column_or_beside_it(history):
    _, layouts, written = history
    for position, number, value in written:
        decoded = Retyping(layouts[-1], position).today(
            event([(1, convert(value, layouts[number][1].type, Retyping(layouts[-1], position).columns[1].type))])
        )
        held = [cell for _, cell in decoded.cells if cell is not None]
        assert len(held) == (value is not None)


@given(histories())
def test_the_layout_is_reported_by_the_table_itself(history):
    _, layouts, _ = history
    assert columns_of_arrow_schema(arrow_schema(layouts[-1])) == layouts[-1]
