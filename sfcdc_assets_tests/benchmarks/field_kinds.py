"""The kinds of field that a large entity has, and how a value of one is written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


class Diff(str):
    """A text's difference, which an event carries in its place."""


@dataclass(frozen=True)
class Kind:
    """A field's type in describe and in Avro, and how many values it has at most in this table (0: one a record)."""

    described: str
    avro: str
    doc: str
    values: int


_TEXT, _PICKLIST = Kind("string", "string", "Text", 0), Kind("picklist", "string", "DynamicEnum", 12)
_REFERENCE, _AMOUNT = Kind("reference", "string", "EntityId", 20_000), Kind("currency", "double", "Currency", 0)
_PERCENT, _FLAG = Kind("percent", "double", "Percent", 101), Kind("boolean", "boolean", "Boolean", 2)
_TIME, _NUMBER = Kind("datetime", "long", "DateTime", 0), Kind("int", "int", "Integer", 500)
KINDS = (
    *(_TEXT, _PICKLIST, _AMOUNT, _TIME, _FLAG, _REFERENCE, _PICKLIST, _PERCENT, _TEXT, _NUMBER),
    *(_PICKLIST, _AMOUNT, _FLAG, _TIME, _PICKLIST, _REFERENCE, _PERCENT, _TEXT, _PICKLIST, _TIME),
    *(_AMOUNT, _FLAG, _PICKLIST, _TEXT, _NUMBER, _TIME, _PICKLIST, _FLAG, _PERCENT),
)
"""13 texts, 6 numbers, 4 flags, 4 times, 2 integers: with the Id 30 columns."""


def text_prefix(kind: Kind) -> str:
    return {"reference": "003Dp0000000", "picklist": "Stage "}.get(kind.described, "Text of a record ")


def arrow_type(kind: Kind) -> pa.DataType:
    return {"string": pa.string(), "double": pa.float64(), "boolean": pa.bool_(), "long": pa.int64()}.get(
        kind.avro, pa.int32()
    )
