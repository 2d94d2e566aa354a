"""Salesforce's field types: their names in describe and in the docs of an event schema, and the column each one gets
(docs/salesforce-streams.md, "Field types")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sfcdc_assets.change_events.column_types import ColumnType


@dataclass(frozen=True)
class FieldType:
    """`name`: as describe calls it. `docs`: how an event schema's doc of such a field begins. `avro`: scalars that mean
    it where there is no doc. `family`: types that turn into one another without a change of values."""

    name: str
    column: ColumnType = ColumnType.STRING
    docs: tuple[str, ...] = ()
    avro: tuple[str, ...] = ()
    family: Literal["number", "text"] | None = None


LARGE_TEXT_DOCS = frozenset({"StringPlusClob", "HtmlStringPlusClob"})
"""Docs of fields whose changes may come as diffs."""

_TYPES = (
    FieldType("boolean", ColumnType.BOOLEAN, ("Boolean",), ("boolean",)),
    FieldType("int", ColumnType.INT, ("Integer",), ("int",), "number"),
    FieldType("double", ColumnType.DOUBLE, ("Double",), ("double", "float"), "number"),
    FieldType("currency", ColumnType.DOUBLE, ("Currency",), family="number"),
    FieldType("percent", ColumnType.DOUBLE, ("Percent",), family="number"),
    FieldType("date", ColumnType.DATE, ("DateOnly",)),
    FieldType("datetime", ColumnType.TIMESTAMP, ("DateTime",)),
    FieldType("time", docs=("TimeOnly",)),
    FieldType("string", family="text"),
    FieldType("textarea", docs=(*sorted(LARGE_TEXT_DOCS), "MultiLineText"), family="text"),
    FieldType("picklist", docs=("DynamicEnum", "StaticEnum"), family="text"),
    FieldType("combobox", family="text"),
    FieldType("multipicklist", docs=("MultiEnum",)),
    FieldType("phone", docs=("Phone",), family="text"),
    FieldType("email", docs=("Email",), family="text"),
    FieldType("url", docs=("Url",), family="text"),
    FieldType("encryptedstring", docs=("EncryptedText",)),
    FieldType("reference", docs=("EntityId",)),
)

_BY_NAME: Mapping[str, FieldType] = {each.name: each for each in _TYPES}
_BY_DOC: Mapping[str, FieldType] = {doc: each for each in _TYPES for doc in each.docs}
_BY_AVRO: Mapping[str, FieldType] = {scalar: each for each in _TYPES for scalar in each.avro}
_TEXT = _BY_NAME["string"]


def field_type(name: str) -> FieldType:
    """Return the type that describe calls so; those not listed (`id`, `anyType` ...) are texts under their own name."""
    return _BY_NAME.get(name) or FieldType(name)


def field_type_of_event(doc: str, scalar: str | None) -> FieldType:
    """Return the type of an event schema's field, where describe does not say it."""
    return _BY_DOC.get(doc) or _BY_AVRO.get(scalar or "") or _TEXT


def doc_type(doc: str) -> FieldType | None:
    """Return the type that the doc of an event schema's field names, if it does."""
    return _BY_DOC.get(doc)


def of_one_family(old: str, new: str) -> bool:
    """Return whether a field that was of one type and is of the other by now has the values it had."""
    return old == new or (field_type(old).family is not None and field_type(old).family == field_type(new).family)
