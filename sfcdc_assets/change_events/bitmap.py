"""Which fields a header's bitmap names (docs/salesforce-streams.md, "Bitmaps").

    "0x800002"   bits of the event's own fields: bit i (from the lowest) is field i of the schema; bit 0 is the header
    "6-0x0180"   bits of the record that field 6 holds: its children 7 and 8

The elements come in any order, the plain one is absent when only children changed, and the parent's own bit is not set
then. The parent's own bit alone stands for the whole compound field.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sfcdc_assets.change_events.errors import BitmapError
from sfcdc_assets.change_events.event_schema import FieldBit, SchemaField, schema_fields

_ELEMENT = re.compile(r"(?:([0-9]+)-)?0[xX]([0-9A-Fa-f]+)")


def decode_field_bitmap(bitmap: list[str], schema: dict[str, Any]) -> list[str]:
    """Return the paths (`Name`, `BillingAddress.City`) of the fields that `bitmap` names, in schema order, each once.

    `schema` is the event's own schema. `Parent` without a child means the whole compound field. Hex digits of either
    case and of any number are read. A child bitmap of a field that can hold no record names nothing: there is no child
    it could name. Raises `BitmapError` for an element that is not a bitmap and for bits beyond the schema, which are
    the sign of a wrong schema. The arguments are not changed.
    """
    fields = schema_fields(schema)
    paths = []
    for position, child in field_bits(bitmap, fields):
        field = fields[position]
        if child is None:
            paths.append(field.name)
        elif field.children is not None:
            paths.append(f"{field.name}.{field.children[child].name}")
    return paths


def field_bits(bitmap: Sequence[str], fields: Sequence[SchemaField]) -> list[FieldBit]:
    """Return the bits that are set, in schema order, a field before its children.

    Child bits of a field that can hold no record are returned as they are, for the caller to judge. Raises
    `BitmapError`.
    """
    bits: set[FieldBit] = set()
    for element in bitmap:
        match = _ELEMENT.fullmatch(element)
        if match is None:
            raise BitmapError(element, "is not of the form 0xHH or position-0xHH")
        number = int(match[2], 16)
        if match[1] is None:
            bits.update((bit, None) for bit in _set_bits(number, len(fields), element))
        else:
            position = _position(match[1], len(fields), element)
            children = fields[position].children
            count = number.bit_length() if children is None else len(children)
            bits.update((position, bit) for bit in _set_bits(number, count, element))
    return sorted(bits, key=_schema_order)


def _position(digits: str, count: int, element: str) -> int:
    # A position is compared by its length first: an endless run of digits is no reason to convert it.
    position = int(digits) if len(digits) <= 9 else count
    if position >= count:
        raise BitmapError(element, f"names field {digits[:20]}, but the schema has {count} fields")
    return position


def _set_bits(number: int, count: int, element: str) -> list[int]:
    if number.bit_length() > count:
        raise BitmapError(element, f"sets bit {number.bit_length() - 1}, but there are {count} fields")
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def _schema_order(bit: FieldBit) -> tuple[int, int]:
    return bit[0], -1 if bit[1] is None else bit[1]
