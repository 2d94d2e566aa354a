"""A table rewritten for changed types, and one rebuilt from old events, hold the same; nothing known is lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from sfcdc_assets.change_events.cell_value import converter
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column, arrow_schema, columns_of_arrow_schema
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.change_events.retyping import Retyping
from sfcdc_assets.change_events.type_conversion import convert
from sfcdc_assets.schema_evolution.layout import laid_out
from sfcdc_assets.schema_evolution.reshape import reshape_of
from sfcdc_assets_tests.change_events.test_type_conversion import VALUES

NAMES = {type_: str(type_) for type_ in ColumnType} | {ColumnType.TIMESTAMP: "datetime"}
SCALARS = {type_: str(type_) for type_ in ColumnType} | {ColumnType.TIMESTAMP: "long", ColumnType.DATE: "long"}


def after_change(columns: tuple[Column, ...], new: ColumnType, position: int) -> tuple[Column, ...]:
    """The columns when the field's type becomes `new`, as the pipeline lays them out."""
    changed = replace(columns[1], type=new, salesforce_type=NAMES[new])
    return laid_out(columns, (columns[0], changed, *columns[2:]), position)


@st.composite
def histories(draw):
    """Types of a field one after another, and values written while it had them, each as (the event's position, which of
    the types, the value): some of their events come after the field's type has changed again."""
    types = draw(st.lists(st.sampled_from(list(ColumnType)), min_size=1, max_size=4))
    columns = (ID_COLUMN, Column("F", types[0], False, NAMES[types[0]]))
    layouts, written = [columns], []
    for number, type_ in enumerate(types):
        if number:
            columns = after_change(columns, type_, number * 10)
            layouts.append(columns)
        written += [
            (draw(st.integers(number, len(types) - 1)) * 10 + checkpoint, number, value)
            for checkpoint, value in enumerate(draw(st.lists(st.none() | VALUES[type_], max_size=4)))
        ]
    return types, layouts, written


def event(cells):
    """A create that sets these cells."""
    header = ChangeEventHeader("X", ("x",), ChangeType.CREATE, "", "t", 1, 0, 0, "u")
    return DecodedEvent(header, cells, frozenset())


def whole(columns, cells):
    """A table of one row with these cells."""
    by_number = dict(cells)
    arrays = []
    for number, field in enumerate(arrow_schema(columns)):
        value = by_number.get(number)
        numbers = {ColumnType.DATE: pa.int32(), ColumnType.TIMESTAMP: pa.int64()}.get(columns[number].type)
        arrays.append(pa.array([value], numbers).cast(field.type) if numbers else pa.array([value], field.type))
    return pa.table(arrays, schema=arrow_schema(columns))


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


def read(columns, position, type_, value):
    """The cells of an event whose schema shows the field to be of a type, by the columns of a time; None if the event
    cannot be read: of times only the position says of which kind they are."""
    retyping = Retyping(columns, position, {1: SchemaField(1, "F", "", SCALARS[type_], None)})
    try:
        then = convert(value, type_, retyping.columns[1].type)
    except ValueError:
        assert (type_, retyping.columns[1].type) == (ColumnType.TIMESTAMP, ColumnType.DATE)
        return None
    return retyping.today(event([(1, then)])).cells


@given(histories())
def test_an_event_read_at_its_position_and_rewritten_step_by_step_is_the_event_read_today(history):
    """Whatever its schema's type is, and however often the field's type has changed since."""
    types, layouts, written = history
    for position, number, value in written:
        of_then, type_ = position // 10, types[number]
        cells = read(layouts[of_then], position, type_, value)
        if cells is None:
            assert read(layouts[-1], position, type_, value) is None
            continue
        table = whole(layouts[of_then], cells)
        for before, after in pairwise(layouts[of_then:]):
            table = reshape_of(arrow_schema(before), before, arrow_schema(after), after).rows(table)
        rewritten, today = cells_of(table, layouts[-1], 0), read(layouts[-1], position, type_, value)
        assert {i: v for i, v in rewritten.items() if v is not None and i} == {i: v for i, v in today if v is not None}


@given(histories())
def test_a_table_that_missed_some_changes_of_type_follows_them_all_at_once(history):
    _, layouts, written = history
    first, today = layouts[0], layouts[-1]
    for value in [value for _, number, value in written if number == 0]:
        table = step_by_step = whole(first, [(1, value)])
        for before, after in pairwise(layouts):
            step_by_step = reshape_of(arrow_schema(before), before, arrow_schema(after), after).rows(step_by_step)
        assert reshape_of(arrow_schema(first), first, arrow_schema(today), today).rows(table).equals(step_by_step)


@given(histories())
def test_every_value_is_in_the_column_or_beside_it(history):
    types, layouts, written = history
    for position, number, value in written:
        cells = read(layouts[-1], position, types[number], value)
        assert cells is None or sum(cell is not None for _, cell in cells) == (value is not None)


@given(histories())
def test_the_layout_is_reported_by_the_table_itself(history):
    _, layouts, _ = history
    assert columns_of_arrow_schema(arrow_schema(layouts[-1])) == layouts[-1]


@pytest.mark.parametrize(
    ("old", "new", "is_noted"),
    [
        ("time", "string", True),
        ("string", "time", True),
        ("string", "picklist", False),
        ("double", "percent", False),
    ],
)
def test_that_events_are_read_otherwise_is_noted_where_the_values_of_a_table_stay_as_they_are(
    old: str, new: str, is_noted: bool
) -> None:
    """A time of day is a text in the tables and a long in events."""
    before, after = (Column("F", field_type(kind).column, salesforce_type=kind) for kind in (old, new))
    columns = laid_out((ID_COLUMN, before), (ID_COLUMN, after), 10)
    assert [each.salesforce_type for each in columns[1].types_before] == [old] * is_noted
    assert len(columns) == 2
    assert not reshape_of(arrow_schema([before]), [before], arrow_schema(columns), columns).ways


def test_that_values_were_hashed_as_another_type_is_noted() -> None:
    key = HashKey.of("secret" * 6)
    before, after = (Column("F", field_type(kind).column, salesforce_type=kind) for kind in ("date", "datetime"))
    columns = laid_out((ID_COLUMN, before.hashed(key)), (ID_COLUMN, after.hashed(key)), 10)
    leaf = SchemaField(1, "F", "", "long", None)
    hashes = []
    for position in (9, 10):
        then = Retyping(columns, position, {1: leaf}).columns[1]
        hashes.append(converter(leaf, then)(86_400_000))
    assert hashes == [key.digest("1970-01-02"), key.digest("1970-01-02T00:00:00.000Z")]
    assert not reshape_of(arrow_schema(columns), columns, arrow_schema(columns), columns).ways
