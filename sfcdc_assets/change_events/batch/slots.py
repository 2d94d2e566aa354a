"""An event schema as tables that arrays are looked up in.

A slot is a place where an event has a value or null: one for each field of the body, in schema order, and after them
those of each compound field's parts. What a bitmap names and what a column is filled from are slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sfcdc_assets.change_events.batch.payload_bytes import Flags
from sfcdc_assets.change_events.cell_value import SourceKind, kind_without_conversion
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import SchemaField, named_types, schema_fields
from sfcdc_assets.change_events.wanted_field import Leaf, wanted_fields


class Kind(IntEnum):
    """How a value is written. `OTHER` is not read here: the event is left to the reference."""

    OTHER = 0
    STRING = 1
    LONG = 2
    DOUBLE = 3
    FLOAT = 4
    BOOLEAN = 5
    RECORD = 6


class Read(IntEnum):
    """How a value becomes a cell. `ONE_BY_ONE`: by the leaf's own converter."""

    NOT = 0
    TEXT = 1
    REFERENCE = 2
    BOOLEAN = 3
    INT = 4
    DOUBLE = 5
    DATE = 6
    DATETIME = 7
    ONE_BY_ONE = 8


class NotReadInBatches(ValueError):
    """A schema has something that is read event by event only."""


_SCALARS = {
    "string": Kind.STRING,
    "int": Kind.LONG,
    "long": Kind.LONG,
    "double": Kind.DOUBLE,
    "float": Kind.FLOAT,
    "boolean": Kind.BOOLEAN,
}
_READ = {
    SourceKind.TEXT: Read.TEXT,
    SourceKind.REFERENCE: Read.REFERENCE,
    SourceKind.BOOLEAN: Read.BOOLEAN,
    SourceKind.INTEGER: Read.INT,
    SourceKind.NUMBER: Read.DOUBLE,
    SourceKind.DATE: Read.DATE,
    SourceKind.DATETIME: Read.DATETIME,
}


class Slots:
    """The slots of a schema's body. Arrays have an entry for each slot; `order` is its place in an event's bytes, a
    compound field before its parts, and `of_order` the slot at such a place; `rank` is its place by columns, those
    without one last, and `of_rank` the slot at such a place."""

    def __init__(self, schema: Mapping[str, Any], columns: Sequence[Column]) -> None:
        """Find the slots of the body. Raise `NotReadInBatches` where it has a shape that batches do not know."""
        self.layout = schema_fields(schema)
        branches = _branches(schema)
        self.fields = len(self.layout) - 1
        """Fields of the body; their slots come first, so that field `n` of the schema is slot `n - 1`."""
        children = [field.children or () for field in self.layout[1:]]
        counts = np.array([len(of_field) for of_field in children], np.int64)
        self.count = self.fields + int(counts.sum())
        self.child_count = np.zeros(self.count, np.int64)
        self.child_count[: self.fields] = counts
        before = np.cumsum(counts) - counts
        self.first_child = np.full(self.count, -1, np.int64)
        self.first_child[: self.fields] = self.fields + before
        self.parent = np.full(self.count, -1, np.int64)
        self.parent[self.fields :] = np.repeat(np.arange(self.fields), counts)
        self.order = np.empty(self.count, np.int64)
        self.order[: self.fields] = np.arange(self.fields) + before
        place_in_field = np.arange(self.count - self.fields) - np.repeat(before, counts)
        self.order[self.fields :] = self.order[self.parent[self.fields :]] + 1 + place_in_field
        self.of_order = np.argsort(self.order)
        self.kinds = np.zeros((self.count, 256), np.uint8)
        """By the byte that names a value's branch; 0 where it names none that is read here."""
        every = [each for each, _ in branches] + [child for _, of_field in branches for child in of_field]
        for slot, known in enumerate(every):
            for number, kind in enumerate(known, 1):
                self.kinds[slot, 2 * number] = kind
        self.is_switchable: Flags = np.zeros(self.count, bool)
        """Fields that are a text or a record of parts."""
        for slot, field in enumerate(self.layout[1:]):
            self.is_switchable[slot] = field.scalar is not None and field.children is not None
        self._want(columns)

    def slot(self, position: int, child: int | None) -> int:
        """Return the slot of a field of the schema, or of its child."""
        return position - 1 if child is None else int(self.first_child[position - 1]) + child

    def _want(self, columns: Sequence[Column]) -> None:
        self.column: npt.NDArray[np.int32] = np.full(self.count, -1, np.int32)
        """The column that a slot's values go to; -1: none."""
        self.read: npt.NDArray[np.uint8] = np.zeros(self.count, np.uint8)
        self.leaves: dict[int, Leaf] = {}
        self.is_left_out: Flags = np.zeros(self.count, bool)
        """Lists of checkboxes: events that touch one are left to the reference."""
        for position, field in wanted_fields(self.layout, columns).items():
            self.is_left_out[position - 1] = field.checkboxes is not None
            if field.plain is not None:
                self._leaf(self.slot(position, None), self.layout[position], field.plain, columns)
            for child, leaf in field.children.items():
                self._leaf(self.slot(position, child), (self.layout[position].children or ())[child], leaf, columns)
        by_column = np.where(self.column >= 0, self.column, np.iinfo(np.int32).max)
        self.of_rank = np.argsort(by_column, kind="stable")
        self.rank = np.argsort(self.of_rank)
        self.wanted = int((self.column >= 0).sum())
        """How many slots have a column."""

    def _leaf(self, slot: int, field: SchemaField, leaf: Leaf, columns: Sequence[Column]) -> None:
        self.column[slot], self.leaves[slot] = leaf.column, leaf
        kind = kind_without_conversion(field, columns[leaf.column])
        self.read[slot] = _READ.get(kind, Read.ONE_BY_ONE) if kind else Read.ONE_BY_ONE


_Branches = list[Kind]


def _branches(schema: Mapping[str, Any]) -> list[tuple[_Branches, list[_Branches]]]:
    """Return for each field of the body the kinds of its branches after null, and the same for its parts."""
    named = dict(named_types(schema))
    return [_of_field(field, named, nested=True) for field in schema["fields"][1:]]


def _of_field(
    field: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]], *, nested: bool
) -> tuple[_Branches, list[_Branches]]:
    branches = field["type"]
    if not isinstance(branches, list) or branches[0] != "null" or len(branches) > 8:
        raise NotReadInBatches(f"{field['name']} is no union of null with others")
    kinds: _Branches = []
    parts: list[_Branches] = []
    for branch in branches[1:]:
        resolved: Any = named.get(branch, branch) if isinstance(branch, str) else branch
        if isinstance(resolved, str) and resolved in _SCALARS:
            kinds.append(_SCALARS[resolved])
        elif isinstance(resolved, Mapping) and resolved.get("type") == "array":
            kinds.append(Kind.OTHER)
        elif isinstance(resolved, Mapping) and resolved.get("type") == "record" and nested and not parts:
            kinds.append(Kind.RECORD)
            parts = [_of_field(child, named, nested=False)[0] for child in resolved["fields"]]
            if not parts:
                raise NotReadInBatches(f"{field['name']} is a record without parts")
        else:
            raise NotReadInBatches(f"{field['name']} may be a {resolved}")
    if len({kind for kind in kinds if kind is not Kind.RECORD}) > 1 or kinds.count(Kind.RECORD) > 1:
        raise NotReadInBatches(f"{field['name']} may be one of several scalars")
    return kinds, parts
