"""The fields of an event schema that a table has columns for: where their values go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.change_events.cell_value import Converter, converter
from sfcdc_assets.change_events.checkboxes import Checkboxes, checkboxes_of, is_list, stem
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column
from sfcdc_assets.change_events.compound_field import leaf_columns
from sfcdc_assets.change_events.event_schema import SchemaField


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that goes into a column, and how it is converted."""

    column: int
    convert: Converter
    child: str | None


@dataclass(frozen=True, slots=True)
class WantedField:
    """A field of the schema with what the tables want of it; a compound field has its parts in `children`.

    A list of checkboxes shares its `checkboxes` with the other lists of their beginning.
    """

    name: str
    compound: bool
    plain: Leaf | None
    children: dict[int, Leaf]
    checkboxes: Checkboxes | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its own bit stands for several columns."""
        return self.compound or self.checkboxes is not None


def wanted_fields(layout: Sequence[SchemaField], columns: Sequence[Column]) -> dict[int, WantedField]:
    """Return the fields that have at least one column, by position; the header is not one of them."""
    index = {column.name.lower(): number for number, column in enumerate(columns)}
    fields = {}
    for field in layout[1:]:
        plain: Leaf | None = None
        children: dict[int, Leaf] = {}
        for name, parent, child in leaf_columns(field):
            number = index.get(name.lower())
            if number is None or name == ID_COLUMN.name:
                continue
            if child is None:
                plain = Leaf(number, converter(parent, columns[number]), None)
            else:
                children[child.position] = Leaf(number, converter(child, columns[number]), child.name)
        if plain is not None or children:
            fields[field.position] = WantedField(field.name, field.children is not None, plain, children)
    return fields | _checkbox_lists(layout, columns)


def carried_columns(layout: Sequence[SchemaField], columns: Sequence[Column]) -> set[int]:
    """Return the numbers of the columns that a create or an undelete of this schema sets."""
    found: set[int] = set()
    for field in wanted_fields(layout, columns).values():
        leaves = [*([field.plain] if field.plain is not None else ()), *field.children.values()]
        found.update(leaf.column for leaf in leaves)
        found.update(field.checkboxes.columns.values() if field.checkboxes is not None else ())
    return found


def leaves_of_columns(layout: Sequence[SchemaField], columns: Sequence[Column]) -> dict[int, SchemaField]:
    """Return where the schema has the values of columns, by the number of the column."""
    index = {column.name.lower(): number for number, column in enumerate(columns)}
    leaves = (
        (index.get(n.lower()), child or parent) for field in layout[1:] for n, parent, child in leaf_columns(field)
    )
    return {number: leaf for number, leaf in leaves if number is not None}


def _checkbox_lists(layout: Sequence[SchemaField], columns: Sequence[Column]) -> dict[int, WantedField]:
    own = {name for field in layout[1:] for name, _, _ in leaf_columns(field)}
    boxes = {c.name: n for n, c in enumerate(columns) if c.type is ColumnType.BOOLEAN and c.name not in own}
    named = {column.name for column in columns}
    lists = [field for field in layout[1:] if is_list(field) and field.name not in named]
    # Lists one of whose beginnings begins the other's too share their checkboxes.
    beginnings = sorted({stem(field.name) for field in lists}, key=len)
    shortest = {name: next(each for each in beginnings if name.startswith(each)) for name in (f.name for f in lists)}
    groups = {}
    for beginning in dict.fromkeys(shortest.values()):
        members = {name: boxes[name] for name in checkboxes_of(beginning, boxes)}
        groups[beginning] = Checkboxes(beginning, tuple(n for n, of in shortest.items() if of == beginning), members)
    found = {
        field.position: WantedField(
            field.name, compound=False, plain=None, children={}, checkboxes=groups[shortest[field.name]]
        )
        for field in lists
    }
    return {position: field for position, field in found.items() if field.checkboxes and field.checkboxes.columns}
