"""The fields of an event schema that a table has columns for: where their values go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfcdc_assets.change_events.cell_value import Converter, converter
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
    """A field of the schema with what the tables want of it; a compound field has its parts in `children`."""

    name: str
    compound: bool
    plain: Leaf | None
    children: dict[int, Leaf]


def wanted_fields(layout: Sequence[SchemaField], columns: Sequence[Column]) -> dict[int, WantedField]:
    """The fields that have at least one column, by position; the header is not one of them."""
    index = {column.name: number for number, column in enumerate(columns)}
    fields = {}
    for field in layout[1:]:
        plain: Leaf | None = None
        children: dict[int, Leaf] = {}
        for name, parent, child in leaf_columns(field):
            number = index.get(name)
            if number is None or name == ID_COLUMN.name:
                continue
            if child is None:
                plain = Leaf(number, converter(parent, columns[number]), None)
            else:
                children[child.position] = Leaf(number, converter(child, columns[number]), child.name)
        if plain is not None or children:
            fields[field.position] = WantedField(field.name, field.children is not None, plain, children)
    return fields
