"""The values of an event's fields, each as its column holds it; what does not fit is rescued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sfcdc_assets.change_events.cell_value import Converter, SourceKind, converter, source_kind
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.field_types import FieldType, field_type_of_event
from sfcdc_assets.change_events.json_values import avro_value
from sfcdc_assets.change_events.privacy import Compounds, Privacy
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.salesforce.api_name import is_api_name

_SCALARS = {
    ColumnType.BOOLEAN: "boolean",
    ColumnType.INT: "int",
    ColumnType.DOUBLE: "double",
    ColumnType.DATE: "long",
    ColumnType.TIMESTAMP: "long",
    ColumnType.STRING: "string",
}


@dataclass(frozen=True)
class FieldReader:
    """One field: its column (None: the settings leave it out), and how its values become the column's."""

    name: str
    column: Column | None
    convert: Callable[[Any], CellValue]


def reader_of_schema_field(field: SchemaField) -> tuple[Column, SchemaField]:
    """Return the column of a field of an Avro schema."""
    plain = field_type_of_event(field.doc_type, field.scalar)
    return Column(field.name, plain.column, salesforce_type=plain.name), field


def reader_of_type(name: str, plain: FieldType) -> tuple[Column, SchemaField]:
    """Return the column of a field that describe, or a person, says the type of."""
    scalar = "long" if plain.name == "time" else _SCALARS[plain.column]
    doc = plain.docs[0] if plain.docs else ""
    return Column(name, plain.column, salesforce_type=plain.name), SchemaField(0, name, doc, scalar, None)


def field_readers(
    entity: str | None,
    fields: Iterable[tuple[Column, SchemaField]],
    privacy: Privacy,
    *,
    as_json: bool,
    compounds: Compounds = MappingProxyType({}),
) -> dict[str, FieldReader]:
    """Field -> its reader, of fields of an event or object of this name (None: not known), by the rules of privacy.

    `as_json`: values are as JSON has them, which is checked; otherwise as Avro has them. `compounds`: field -> fields
    that show the same, whose rules are its own too.
    """
    readers = {}
    for column, leaf in fields:
        if not is_api_name(column.name):
            continue  # no table could have such a column
        wanted = next(iter(privacy.columns(entity, [column], compounds)), None)
        convert = converter(leaf, wanted or column)
        if as_json:
            convert = _checked(leaf, source_kind(leaf, wanted or column), convert)
        readers[column.name] = FieldReader(column.name, wanted, convert)
    return readers


def read_fields(
    readers: Mapping[str, FieldReader], values: Mapping[str, Any]
) -> tuple[dict[Column, CellValue], dict[str, Any], list[str]]:
    """Return the fields' values by column, null for those that the event does not have; what fits no column; and why. A
    value that is hashed is not quoted."""
    read: dict[Column, CellValue] = {reader.column: None for reader in readers.values() if reader.column is not None}
    rescued: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in values.items():
        reader = readers.get(name)
        if reader is None:
            rescued[name] = value
            problems.append(f"{name} has no column")
        elif reader.column is not None and value is not None:
            try:
                read[reader.column] = reader.convert(value)
            except (ValueError, OverflowError) as error:
                rescued[name] = value
                said = str(error) if reader.column.hash_key is None else "its value does not fit"
                problems.append(said if name in said else f"{name}: {said}")
    return read, rescued, problems


def _checked(leaf: SchemaField, kind: SourceKind, convert: Converter) -> Converter:
    return lambda value: convert(avro_value(leaf, value, kind))
