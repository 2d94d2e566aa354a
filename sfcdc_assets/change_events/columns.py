"""The columns of an entity's tables: flat API names and types, from the event schema and describe.

The event schema says which fields exist (formula and derived fields, `SystemModstamp` and `IsDeleted` are not in it);
describe says what they are and which of them the user may see.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from sfcdc_assets.change_events.checkboxes import checkboxes_of, is_list
from sfcdc_assets.change_events.compound_field import leaf_columns
from sfcdc_assets.change_events.event_schema import SchemaField, schema_fields
from sfcdc_assets.change_events.hash_key import HashKey

LARGE_TEXT_LENGTH = 1000
"""From this length on Salesforce may send a text as a diff (docs/salesforce-streams.md, "Large-text diffs")."""
SALESFORCE_TYPE_METADATA = b"salesforce.type"
LARGE_TEXT_METADATA = b"salesforce.large_text"
SHAPE_METADATA = b"salesforce.shape"
"""Length, precision and scale of the field, as describe tells them."""
KEPT_FROM_METADATA = b"salesforce.kept_from"
KEPT_UNTIL_METADATA = b"salesforce.kept_until"
KEPT_FOR_METADATA = b"salesforce.kept_for"
HASHED_METADATA = b"salesforce.hashed"
"""Id of the key that the column's values are hashed with."""
SYSTEM_COLUMN_PREFIX = "_"
"""No field of Salesforce starts with it."""


class ColumnType(StrEnum):
    """What a table's column holds."""

    BOOLEAN = "boolean"
    INT = "int"
    """32 bits."""
    DOUBLE = "double"
    """double, currency, percent (50.0 is 50 %)."""
    DATE = "date"
    TIMESTAMP = "timestamp"
    """Microseconds, UTC."""
    STRING = "string"
    """Everything else: ids of 18 characters, multi-select `a;b`, time `HH:mm:ss.SSS`."""


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
    kept_until: int = 0
    """Events before this position were written when the field had this type."""
    kept_for: ColumnType | None = None
    """The type that these values did not convert to."""

    @property
    def plain_type(self) -> ColumnType:
        """What a value is before it is hashed."""
        return self.type if self.hash_key is None else _FROM_DESCRIBE.get(self.salesforce_type, ColumnType.STRING)

    @property
    def keeps_texts(self) -> bool:
        """Whether `text_fields` has its values, and diffs can be applied to them."""
        return self.large_text and self.hash_key is None

    def hashed(self, key: HashKey) -> Column:
        """The column with hashes in place of its values."""
        return replace(self, type=ColumnType.STRING, hash_key=key)

    def plain(self) -> Column:
        """The column with its values."""
        return replace(self, type=self.plain_type, hash_key=None)


ID_COLUMN = Column("Id", ColumnType.STRING, False, "id")

_FROM_DESCRIBE = {
    "boolean": ColumnType.BOOLEAN,
    "int": ColumnType.INT,
    "double": ColumnType.DOUBLE,
    "currency": ColumnType.DOUBLE,
    "percent": ColumnType.DOUBLE,
    "date": ColumnType.DATE,
    "datetime": ColumnType.TIMESTAMP,
}
_DESCRIBE_TYPE_OF_DOC = {
    "Boolean": "boolean",
    "Integer": "int",
    "Double": "double",
    "Currency": "currency",
    "Percent": "percent",
    "DateTime": "datetime",
    "DateOnly": "date",
    "TimeOnly": "time",
    "StringPlusClob": "textarea",
    "HtmlStringPlusClob": "textarea",
    "MultiLineText": "textarea",
    "DynamicEnum": "picklist",
    "StaticEnum": "picklist",
    "MultiEnum": "multipicklist",
    "Phone": "phone",
    "Email": "email",
    "Url": "url",
    "EncryptedText": "encryptedstring",
    "EntityId": "reference",
}
_DESCRIBE_TYPE_OF_AVRO = {"boolean": "boolean", "int": "int", "double": "double", "float": "double"}
_LARGE_TEXT_DOCS = frozenset({"StringPlusClob", "HtmlStringPlusClob"})
ARROW_TYPES = {
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.INT: pa.int32(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.DATE: pa.date32(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.STRING: pa.string(),
}


def columns(event_schema: Mapping[str, Any], describe: Mapping[str, Any] | None = None) -> tuple[Column, ...]:
    """The columns of the entity: `Id`, then what the event schema carries, in describe's order (else in its own).

    A field that a given `describe` lacks is hidden from the user by field-level security and gets no column: its
    events carry null for it, which is not its value. A list of checkboxes gives a column for each of them.
    Raises `EventSchemaError`.
    """
    carried: dict[str, SchemaField] = {}
    for field in schema_fields(event_schema)[1:]:
        for name, parent, child in leaf_columns(field):
            if name != ID_COLUMN.name:
                carried.setdefault(name, child or parent)
    if describe is None:
        return (ID_COLUMN, *(_column(name, leaf, None) for name, leaf in carried.items()))
    described = {entry["name"]: entry for entry in describe["fields"]}
    boxes = [name for name, entry in described.items() if name not in carried and _may_be_listed(entry)]
    for field in schema_fields(event_schema)[1:]:
        if is_list(field):
            carried |= dict.fromkeys(checkboxes_of(field.name, boxes), field)
    return (ID_COLUMN, *(_column(name, carried[name], described[name]) for name in described if name in carried))


PLAIN_METADATA = {SHAPE_METADATA.decode(): "0,0,0", LARGE_TEXT_METADATA.decode(): "false"}
"""What the metadata of a column without these must say where it said something else before: it cannot be unsaid."""


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns as an Arrow schema: all nullable; Salesforce type, marks of large texts and hashes as metadata."""
    return pa.schema(
        pa.field(column.name, ARROW_TYPES[column.type], nullable=True, metadata=_metadata(column)) for column in columns
    )


def columns_of_arrow_schema(schema: pa.Schema) -> tuple[Column, ...]:
    """The columns of a table that `arrow_schema` made; our own (`_is_deleted` ...) are left out.

    Of the key of hashed ones only the id is known. Raises `ValueError` for a field of a type no column has.
    """
    return tuple(_column_of_arrow_field(field) for field in schema if not field.name.startswith(SYSTEM_COLUMN_PREFIX))


def _column_of_arrow_field(field: pa.Field) -> Column:
    metadata = field.metadata or {}
    for column_type, arrow_type in ARROW_TYPES.items():
        if field.type == arrow_type or (column_type is ColumnType.STRING and pa.types.is_large_string(field.type)):
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
                int(metadata.get(KEPT_UNTIL_METADATA, b"0")),
                ColumnType(metadata[KEPT_FOR_METADATA].decode()) if kept_from else None,
            )
    raise ValueError(f"{field.name} is of type {field.type}, which no column of an entity has")


def _may_be_listed(described: Mapping[str, Any]) -> bool:
    """A checkbox of Salesforce's own: custom ones have a field of the event for themselves, formulas none."""
    is_custom = described["name"].endswith("__c")
    return described["type"] == "boolean" and not is_custom and not described.get("calculated")


def _metadata(column: Column) -> dict[bytes, bytes]:
    metadata = {SALESFORCE_TYPE_METADATA: column.salesforce_type.encode()}
    if column.large_text:
        metadata[LARGE_TEXT_METADATA] = b"true"
    if column.hash_key is not None:
        metadata[HASHED_METADATA] = column.hash_key.id.encode()
    if column.shape is not None:
        metadata[SHAPE_METADATA] = ",".join(str(number) for number in column.shape).encode()
    if column.kept_from is not None and column.kept_for is not None:
        metadata[KEPT_FOR_METADATA] = column.kept_for.encode()
        metadata[KEPT_FROM_METADATA] = column.kept_from.encode()
        metadata[KEPT_UNTIL_METADATA] = str(column.kept_until).encode()
    return metadata


def _shape(shape_text: str) -> tuple[int, int, int] | None:
    length, precision, scale = (int(number) for number in shape_text.split(","))
    return (length, precision, scale) if length or precision or scale else None


def _column(name: str, leaf: SchemaField, described: Mapping[str, Any] | None) -> Column:
    large_text = leaf.doc_type in _LARGE_TEXT_DOCS
    shape = None
    if described is None:
        salesforce_type = _DESCRIBE_TYPE_OF_DOC.get(leaf.doc_type) or _DESCRIBE_TYPE_OF_AVRO.get(
            leaf.scalar or "", "string"
        )
    else:
        salesforce_type = described["type"]
        length = described.get("length") or 0
        large_text = large_text or (salesforce_type == "textarea" and length >= LARGE_TEXT_LENGTH)
        shape_text = (length, described.get("precision") or 0, described.get("scale") or 0)
        shape = shape_text if any(shape_text) else None
    return Column(
        name, _FROM_DESCRIBE.get(salesforce_type, ColumnType.STRING), large_text, salesforce_type, shape=shape
    )
