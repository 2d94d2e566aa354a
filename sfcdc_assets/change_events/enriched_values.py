"""What an event carries beside the change it reports (docs/salesforce-streams.md, "Enrichment").

On an enriched channel updates and deletes carry further fields, unchanged and not empty, with the values they had when
the event was delivered. No bitmap names them. They are no changes, but a table can be checked against them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sfcdc_assets.change_events.event_schema import HEADER_FIELD, FieldBit, SchemaField
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.change_events.wanted_field import Leaf, WantedField


@dataclass(frozen=True, slots=True)
class Named:
    """What the bitmaps of an event name, in the forms that make it cheap to see that nothing else is carried."""

    bits: frozenset[FieldBit]
    """Also those of fields without a column."""
    carried: Callable[[dict[str, Any]], tuple[Any, ...]]
    """Gives the header, once more the header (so that there are always two), and the values of the fields named."""
    parts: tuple[tuple[str, frozenset[str]], ...]
    """Compound fields that are named by parts, and these."""


def named_fields(bits: Collection[FieldBit], layout: Sequence[SchemaField]) -> Named:
    """All bits of an event's bitmaps together, against the fields of its schema."""
    names = {position: layout[position].name for position in sorted({position for position, _ in bits}) if position}
    parts = [
        (name, frozenset(child.name for child in layout[position].children or () if (position, child.position) in bits))
        for position, name in names.items()
        if (position, None) not in bits
    ]
    return Named(frozenset(bits), itemgetter(HEADER_FIELD, HEADER_FIELD, *names.values()), tuple(parts))


def enriched(body: dict[str, Any], named: Named, fields: Mapping[int, WantedField]) -> Sequence[tuple[int, CellValue]]:
    """Columns and values of what `body` carries though it is not named; never null.

    A value that its column cannot hold is left out: nothing depends on it. That an ordinary event has no enriched
    values is seen by counting nulls, which costs next to nothing.
    """
    carried = named.carried(body)
    if len(body) - list(body.values()).count(None) == len(carried) - 1 - carried.count(None) and not (
        named.parts and any(_has_more_than(body[name], parts) for name, parts in named.parts)
    ):
        return ()
    found: list[tuple[int, CellValue]] = []
    for position, field in fields.items():
        value = body[field.name]
        if value is None or (position, None) in named.bits:
            continue
        if not isinstance(value, dict):
            _add(field.plain, value, found)
            continue
        for child, leaf in field.children.items():
            if leaf.child is not None and (position, child) not in named.bits:
                _add(leaf, value[leaf.child], found)
    return found


def _add(leaf: Leaf | None, value: Any, found: list[tuple[int, CellValue]]) -> None:
    if leaf is None or value is None:
        return
    try:
        cell = leaf.convert(value)
    except (ValueError, OverflowError):
        return
    if cell is not None:
        found.append((leaf.column, cell))


def _has_more_than(value: Any, parts: Collection[str]) -> bool:
    """Return whether a compound value has a part beside those named, or is not in parts at all."""
    if not isinstance(value, dict):
        return value is not None
    return any(part is not None and name not in parts for name, part in value.items())
