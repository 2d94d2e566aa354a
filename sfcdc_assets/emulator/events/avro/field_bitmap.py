"""Encodes field paths as changedFields, nulledFields and diffFields carry them (docs/salesforce-streams.md,
"Bitmaps")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

FieldPosition = tuple[int, int | None]
"""Index of a field in the schema, and index of the component in its record (None: the field itself)."""


def field_positions(schema: Mapping[str, object]) -> dict[str, FieldPosition]:
    """Every path of a schema (`Name`, `BillingAddress.City`) with its position; the header is at (0, None)."""
    records: dict[str, list[str]] = {}
    positions: dict[str, FieldPosition] = {}
    fields = schema["fields"]
    assert isinstance(fields, list)
    for index, field in enumerate(fields):
        positions[field["name"]] = (index, None)
        branches = field["type"] if isinstance(field["type"], list) else []
        for branch in branches:
            if isinstance(branch, dict) and branch["type"] == "record":
                records[branch["name"]] = [component["name"] for component in branch["fields"]]
            record = str(branch.get("name")) if isinstance(branch, dict) else branch
            for child_index, child in enumerate(records.get(record, ())):
                positions[f"{field['name']}.{child}"] = (index, child_index)
    return positions


def encode_field_bitmap(paths: Iterable[str], positions: Mapping[str, FieldPosition]) -> list[str]:
    """Return the bitmap of `paths`: the plain fields' number first if any, then one element for each compound, by
    position.

    A compound named without component sets its own plain bit; naming only components leaves that bit clear. A path that
    is not in the schema raises KeyError.
    """
    plain = 0
    nested: dict[int, int] = {}
    for path in paths:
        parent, child = positions[path]
        if child is None:
            plain |= 1 << parent
        else:
            nested[parent] = nested.get(parent, 0) | 1 << child
    elements = [_hexadecimal(plain)] if plain else []
    return elements + [f"{parent}-{_hexadecimal(bits)}" for parent, bits in sorted(nested.items())]


def _hexadecimal(bits: int) -> str:
    """`0x` and the fewest whole bytes, big-endian, upper-case digits: bit 0 is the lowest of the last byte."""
    return "0x" + bits.to_bytes((bits.bit_length() + 7) // 8, "big").hex().upper()
