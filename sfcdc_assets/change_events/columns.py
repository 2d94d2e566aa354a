"""The columns of an entity's tables: flat API names and types, from the event schema and describe.

The event schema says which fields exist (formula and derived fields, `SystemModstamp` and `IsDeleted` are not in it);
describe says what they are and which of them the user may see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.checkboxes import checkboxes_of, is_list
from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.compound_field import leaf_columns
from sfcdc_assets.change_events.event_schema import SchemaField, schema_fields
from sfcdc_assets.change_events.field_types import LARGE_TEXT_DOCS, field_type, field_type_of_event
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.salesforce.api_name import by_any_case, is_api_name
from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription

LARGE_TEXT_LENGTH = 1000
"""From this length on Salesforce may send a text as a diff (docs/salesforce-streams.md, "Large-text diffs")."""
SALESFORCE_TYPE_METADATA = b"salesforce.type"
LARGE_TEXT_METADATA = b"salesforce.large_text"
SHAPE_METADATA = b"salesforce.shape"
"""Length, precision and scale of the field, as describe has them."""
FIELD_METADATA = b"salesforce.field"
KEPT_FROM_METADATA = b"salesforce.kept_from"
TYPES_BEFORE_METADATA = b"salesforce.types_before"
"""The types that the field had: `<until>:<type of the column>:<type of the field>`, separated by commas."""
CAME_AT_METADATA = b"salesforce.came_at"
"""The position from which on the tables have the column, if they did not have it from the beginning."""
ABSENCES_METADATA = b"salesforce.absences"
"""The times in which the object lacked the field, or hid it: `<since>:<until>`, positions, separated by commas; without
an end where it still does."""
FORMULA_METADATA = b"salesforce.formula"
"""Whether the field is a formula."""
HASHED_METADATA = b"salesforce.hashed"
"""Id of the key that the column's values are hashed with."""
SYSTEM_COLUMN_PREFIX = "_"
"""No field of Salesforce starts with it."""


@dataclass(frozen=True, slots=True)
class TypeBefore:
    """A type that a field had: events before the position `until` were written with it, if their schema says no
    other."""

    until: int
    type: ColumnType
    salesforce_type: str


@dataclass(frozen=True, slots=True)
class Absence:
    """A time in which the object lacked a field that it has had before, or hid it from the user: of the positions from
    `since` on and before `until` (None: it still does, or `awaits_copy`)."""

    since: int
    until: int | None = None
    awaits_copy: bool = False
    """The field is there again, or for the first time; events that were sent before may still be on their way, until
    the entity is copied."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an entity's tables."""

    name: str
    type: ColumnType
    large_text: bool = False
    """Whether events may carry this text as a diff."""
    salesforce_type: str = "string"
    """The field's type as describe calls it."""
    hash_key: HashKey | None = None
    """The tables hold the values' keyed hashes (`type` is then STRING), made where a value first becomes a cell."""
    shape: tuple[int, int, int] | None = dataclasses.field(default=None, compare=False)
    """Length, precision and scale, of fields that have them."""
    kept_from: str | None = None
    """The column whose earlier values this one keeps: those that did not convert when the field's type was changed."""
    field: str | None = dataclasses.field(default=None, compare=False)
    """The field's name in the org where it is spelt in another case than the column."""
    types_before: tuple[TypeBefore, ...] = dataclasses.field(default=(), compare=False)
    """The types that the field had before its present one, oldest first."""
    came_at: int = dataclasses.field(default=0, compare=False)
    """Events before this position were applied when the tables had no such column, and say nothing of it."""
    absences: tuple[Absence, ...] = dataclasses.field(default=(), compare=False)
    """When the object lacked the field, oldest first: the null of an event is none of its value then."""
    is_formula: bool = dataclasses.field(default=False, compare=False)
    """Whether the field is a formula: not all changes of its value raise an event (docs/salesforce-streams.md)."""

    @property
    def plain_type(self) -> ColumnType:
        """What a value is before it is hashed."""
        return self.type if self.hash_key is None else field_type(self.salesforce_type).column

    @property
    def is_absent(self) -> bool:
        """Whether the object lacks the field now, or hides it."""
        return bool(self.absences) and self.absences[-1].until is None and not self.absences[-1].awaits_copy

    @property
    def keeps_texts(self) -> bool:
        """Whether `text_fields` has its values, and diffs can be applied to them."""
        return self.large_text and self.hash_key is None

    def hashed(self, key: HashKey) -> Column:
        """Return the column with hashes in place of its values."""
        return replace(self, type=ColumnType.STRING, hash_key=key)

    def plain(self) -> Column:
        """Return the column with its values."""
        return replace(self, type=self.plain_type, hash_key=None)


ID_COLUMN = Column("Id", ColumnType.STRING, salesforce_type="id")


def columns(event_schema: Mapping[str, Any], describe: ObjectDescription | None = None) -> tuple[Column, ...]:
    """Return the columns of the entity: `Id`, then what the event schema carries, in describe's order (else in its
    own).

    A field that a given `describe` lacks is hidden from the user by field-level security and gets no column: its
    events carry null for it, which is not its value. A list of checkboxes gives a column for each of them.
    Raises `EventSchemaError`.
    """
    described = {} if describe is None else {field.name: field for field in describe.fields}
    spelt = by_any_case(described)
    carried: dict[str, SchemaField] = {}
    for field in schema_fields(event_schema)[1:]:
        for name, parent, child in leaf_columns(field):
            if name != ID_COLUMN.name and is_api_name(name):
                carried.setdefault(spelt.get(name.lower(), name), child or parent)
    if describe is None:
        return (ID_COLUMN, *(_column(name, leaf, None) for name, leaf in carried.items()))
    boxes = [name for name, field in described.items() if name not in carried and _may_be_listed(field)]
    for listing in filter(is_list, schema_fields(event_schema)[1:]):
        carried |= dict.fromkeys(checkboxes_of(listing.name, boxes), listing)
    return (ID_COLUMN, *(_column(name, carried[name], described[name]) for name in described if name in carried))


PLAIN_METADATA = {
    SHAPE_METADATA.decode(): "0,0,0",
    LARGE_TEXT_METADATA.decode(): "false",
    FIELD_METADATA.decode(): "",
    FORMULA_METADATA.decode(): "false",
}
"""What the metadata of a column without these must say where it said something else before: it cannot be unsaid."""


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Return the columns as an Arrow schema: all nullable; Salesforce type, marks of large texts and hashes as
    metadata."""
    return pa.schema(
        pa.field(column.name, FORMS[column.type].arrow, nullable=True, metadata=_metadata(column)) for column in columns
    )


def columns_of_arrow_schema(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of a table that `arrow_schema` made; our own (`_is_deleted` ...) are left out.

    Of the key of hashed ones only the id is known. Raises `ValueError` for a field of a type no column has.
    """
    return tuple(_column_of_arrow_field(field) for field in schema if not field.name.startswith(SYSTEM_COLUMN_PREFIX))


def hashed_fields(schema: pa.Schema) -> pa.Schema:
    """Return those of a table's fields that hold hashes."""
    return pa.schema([field for field in schema if HASHED_METADATA in (field.metadata or {})])


def _column_of_arrow_field(field: pa.Field) -> Column:
    metadata = field.metadata or {}
    for column_type, forms in FORMS.items():
        if field.type == forms.arrow or (column_type is ColumnType.STRING and pa.types.is_large_string(field.type)):
            key = HashKey(metadata[HASHED_METADATA].decode()) if HASHED_METADATA in metadata else None
            shape = metadata.get(SHAPE_METADATA)
            kept_from = metadata.get(KEPT_FROM_METADATA)
            return Column(
                field.name,
                column_type,
                metadata.get(LARGE_TEXT_METADATA) == b"true",
                metadata.get(SALESFORCE_TYPE_METADATA, b"string").decode(),
                key,
                _shape(shape.decode()) if shape else None,
                kept_from.decode() if kept_from else None,
                metadata.get(FIELD_METADATA, b"").decode() or None,
                _types_before(metadata.get(TYPES_BEFORE_METADATA, b"").decode()),
                int(metadata.get(CAME_AT_METADATA, b"0")),
                _absences(metadata.get(ABSENCES_METADATA, b"").decode()),
                metadata.get(FORMULA_METADATA) == b"true",
            )
    raise ValueError(f"{field.name} is of type {field.type}, which no column of an entity has")


def _may_be_listed(described: FieldDescription) -> bool:
    """Return whether the field is a checkbox of Salesforce's own: custom ones have a field of the event for themselves,
    formulas none."""
    return described.type == "boolean" and not described.name.endswith("__c") and not described.calculated


def _metadata(column: Column) -> dict[bytes, bytes]:
    metadata = {SALESFORCE_TYPE_METADATA: column.salesforce_type.encode()}
    if column.large_text:
        metadata[LARGE_TEXT_METADATA] = b"true"
    if column.hash_key is not None:
        metadata[HASHED_METADATA] = column.hash_key.id.encode()
    if column.shape is not None:
        metadata[SHAPE_METADATA] = ",".join(str(number) for number in column.shape).encode()
    if column.field is not None:
        metadata[FIELD_METADATA] = column.field.encode()
    if column.types_before:
        types = (f"{each.until}:{each.type}:{each.salesforce_type}" for each in column.types_before)
        metadata[TYPES_BEFORE_METADATA] = ",".join(types).encode()
    if column.came_at:
        metadata[CAME_AT_METADATA] = str(column.came_at).encode()
    if column.absences:
        metadata[ABSENCES_METADATA] = ",".join(_absence_text(each) for each in column.absences).encode()
    if column.is_formula:
        metadata[FORMULA_METADATA] = b"true"
    if column.kept_from is not None:
        metadata[KEPT_FROM_METADATA] = column.kept_from.encode()
    return metadata


def _types_before(text: str) -> tuple[TypeBefore, ...]:
    types = (each.split(":") for each in text.split(",") if each)
    return tuple(TypeBefore(int(until), ColumnType(type_), of_field) for until, type_, of_field in types)


_UNTIL_COPIED = "copy"


def _absence_text(absence: Absence) -> str:
    until = _UNTIL_COPIED if absence.awaits_copy else "" if absence.until is None else absence.until
    return f"{absence.since}:{until}"


def _absences(text: str) -> tuple[Absence, ...]:
    absences = (each.split(":") for each in text.split(",") if each)
    return tuple(
        Absence(int(since), int(until) if until.isdecimal() else None, until == _UNTIL_COPIED)
        for since, until in absences
    )


def _shape(shape_text: str) -> tuple[int, int, int] | None:
    length, precision, scale = (int(number) for number in shape_text.split(","))
    return (length, precision, scale) if length or precision or scale else None


def _column(name: str, leaf: SchemaField, described: FieldDescription | None) -> Column:
    large_text = leaf.doc_type in LARGE_TEXT_DOCS
    if described is None:
        plain = field_type_of_event(leaf.doc_type, leaf.scalar)
        return Column(name, plain.column, large_text, plain.name)
    large_text = large_text or (described.type == "textarea" and described.length >= LARGE_TEXT_LENGTH)
    shape = (described.length, described.precision, described.scale)
    return Column(
        name,
        field_type(described.type).column,
        large_text,
        described.type,
        shape=shape if any(shape) else None,
        is_formula=described.calculated and described.calculated_formula is not None,
    )
