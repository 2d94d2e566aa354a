"""From a decoded body to cells: which columns an event sets, and to what, whatever it was written in.

What is *not* a cell is as important as what is: in an update the schema's other fields are null although the record has
values (docs/salesforce-streams.md, "Values by operation"). Only what the header names distinguishes a nulled field from
an unchanged one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.change_events.change_event import Cell, ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.checkboxes import Checkboxes
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.enriched_values import Named, enriched, named_fields
from sfcdc_assets.change_events.errors import PayloadError
from sfcdc_assets.change_events.event_schema import FieldBit, SchemaField, covers
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.change_events.wanted_field import Leaf, WantedField, wanted_fields

_PARTS_ONLY = "the event carries the parts, not what they are together"


@dataclass(frozen=True, slots=True)
class Update:
    """What one set of changed fields means: explicit nulls, and what is read from where."""

    nulls: tuple[Cell, ...]
    plain: tuple[tuple[str, Leaf], ...]
    parts: tuple[tuple[str, Leaf], ...]
    whole: tuple[WantedField, ...]
    diffs: frozenset[int]
    missing: Mapping[str, int]
    """Switchable fields of which parts changed, and their columns: what they are together is not known."""
    named: Named


class EventCells:
    """Reads the bodies of one schema's events for one entity's columns.

    A body has all of the schema's fields by name, the header among them (its value is not looked at), null where the
    event carries nothing; a compound field is a mapping of all its parts. Values are as Avro has them: dates and times
    in ms. Columns the schema does not carry get no cell.
    """

    def __init__(self, entity: str, layout: Sequence[SchemaField], columns: Sequence[Column]) -> None:
        self._entity = entity
        self._layout = layout
        self._fields = wanted_fields(layout, columns)
        self._lists = [field for field in self._fields.values() if field.checkboxes is not None]
        self._nothing_named = named_fields((), layout)

    def event(self, header: ChangeEventHeader, body: dict[str, Any], update: Update | None) -> DecodedEvent:
        """Return the event and the cells it sets; `update` is what an UPDATE's header names.

        A create or undelete sets every column its schema carries, an update exactly what its header names; a delete, a
        gap and what is not known to carry values set nothing. What an update or a delete carries beside is a claim.

        Raises `PayloadError` for a value that its column cannot hold.
        """
        if update is not None:
            missing: dict[str, Collection[int]] = {
                f"{name}: {_PARTS_ONLY}": (column,) for name, column in sorted(update.missing.items())
            }
            cells = self._changed(body, update, missing)
            # A null is a null, even where the header names a diff.
            diffs = update.diffs and update.diffs.intersection(column for column, value in cells if value is not None)
            reported = enriched(body, update.named, self._fields)
            return DecodedEvent(header, cells, diffs, "; ".join(missing) or None, _unproven(missing), reported)
        if header.change_type.carries_all_fields:
            missing = {}
            cells = self._all(body, missing)
            return DecodedEvent(header, cells, frozenset(), "; ".join(missing) or None, _unproven(missing))
        if header.change_type is ChangeType.DELETE:
            reported = enriched(body, self._nothing_named, self._fields)
            return DecodedEvent(header, [], frozenset(), enriched=reported)
        return DecodedEvent(header, [], frozenset())

    def update(self, changed: Sequence[FieldBit], nulled: Sequence[FieldBit], diffs: Sequence[FieldBit]) -> Update:
        """Return what an update means whose header names these fields. Updates of an org repeat a few sets of fields,
        so it is worth keeping. Raises `PayloadError` for a part of a field that has none."""
        nulls = self._key_ranges(nulled)
        sent = {bit: leaf for bit, leaf in self._key_ranges(diffs).items() if not covers(nulls, bit)}
        diff_columns = frozenset(leaf.column for leaf in sent.values() if leaf is not None)
        # A diff is a change even if it is not named as one: its value was sent.
        sent |= {bit: leaf for bit, leaf in self._key_ranges(changed).items() if not covers(nulls, bit)}
        # A list of checkboxes that is null has no true one.
        sent |= {bit: leaf for bit, leaf in nulls.items() if self._fields[bit[0]].checkboxes is not None}
        # A whole compound field is read from the body, its nulled parts with it.
        nulls = {bit: leaf for bit, leaf in nulls.items() if bit not in sent and (bit[0], None) not in sent}
        plain, parts, whole = [], [], []
        for (position, child), leaf in sent.items():
            field = self._fields[position]
            if leaf is None:
                whole.append(field)
            elif child is None:
                plain.append((field.name, leaf))
            elif (position, None) not in sent:
                parts.append((field.name, leaf))
        names_of_whole = {field.name for field in whole}
        switchable = self._switchable((*changed, *nulled))
        return Update(
            self._nulls(nulls),
            tuple(plain),
            tuple(parts),
            tuple(whole),
            diff_columns,
            {name: column for name, column in switchable.items() if name not in names_of_whole},
            named_fields({*changed, *nulled, *diffs}, self._layout),
        )

    def _all(self, body: dict[str, Any], missing: dict[str, Collection[int]]) -> list[Cell]:
        cells: list[Cell] = []
        self._checkboxes(self._lists, body, cells, missing, has_all_groups=True)
        for field in self._fields.values():
            if field.compound:
                self._whole(field, body[field.name], cells, missing)
            elif field.plain is not None:
                cells.append((field.plain.column, self._value(field.name, field.plain, body[field.name])))
        return cells

    def _changed(self, body: dict[str, Any], update: Update, missing: dict[str, Collection[int]]) -> list[Cell]:
        cells: list[Cell] = list(update.nulls)
        for name, leaf in update.plain:
            cells.append((leaf.column, self._value(name, leaf, body[name])))
        for name, leaf in update.parts:
            cells.append((leaf.column, self._part(name, leaf, body[name])))
        self._checkboxes(update.whole, body, cells, missing)
        for field in update.whole:
            if field.compound:
                self._whole(field, body[field.name], cells, missing)
        return cells

    def _checkboxes(
        self,
        fields: Iterable[WantedField],
        body: dict[str, Any],
        cells: list[Cell],
        missing: dict[str, Collection[int]],
        *,
        has_all_groups: bool = False,
    ) -> None:
        """Set the checkboxes of the lists among the fields."""
        touched: dict[str, tuple[Checkboxes, list[str]]] = {}
        for field in fields:
            if field.checkboxes is not None:
                touched.setdefault(field.checkboxes.stem, (field.checkboxes, []))[1].append(field.name)
        for checkboxes, lists in touched.values():
            reported, problem = checkboxes.read(body, lists, has_all_groups=has_all_groups)
            cells.extend(reported)
            if problem is not None:
                set_ = {column for column, _ in reported}
                missing[problem] = [column for column in checkboxes.columns.values() if column not in set_]

    def _whole(self, field: WantedField, value: Any, cells: list[Cell], missing: dict[str, Collection[int]]) -> None:
        """Set a value with its parts. One that is a text has no parts: what was a person's name is a business's now."""
        if field.plain is not None and isinstance(value, dict):
            missing[f"{field.name}: {_PARTS_ONLY}"] = (field.plain.column,)
        elif field.plain is not None:
            cells.append((field.plain.column, self._value(field.name, field.plain, value)))
        parts = value if isinstance(value, dict) else None
        for leaf in field.children.values():
            cells.append((leaf.column, self._part(field.name, leaf, parts)))

    def _part(self, name: str, leaf: Leaf, record: Any) -> CellValue:
        if record is None:
            return None
        if not isinstance(record, dict):
            raise self._error("its header names a part of a value that has none", f"{name}.{leaf.child}")
        return self._value(f"{name}.{leaf.child}", leaf, record[leaf.child])

    def _value(self, path: str, leaf: Leaf, value: Any) -> CellValue:
        if value is None:
            return None
        try:
            return leaf.convert(value)
        except (ValueError, OverflowError) as error:
            raise self._error(str(error), path) from None

    def _error(self, problem: str, field: str = "") -> PayloadError:
        return PayloadError(self._entity, problem, field)

    def _switchable(self, bits: Sequence[FieldBit]) -> dict[str, int]:
        """Return the fields of which parts are named and the whole is wanted, whether or not the parts are, and the
        whole's columns."""
        positions = {position for position, child in bits if child is not None}
        fields = (self._fields.get(position) for position in positions)
        return {
            field.name: field.plain.column
            for field in fields
            if field is not None and field.compound and field.plain is not None
        }

    def _nulls(self, nulled: dict[FieldBit, Leaf | None]) -> tuple[Cell, ...]:
        columns: dict[int, None] = {}
        for (position, _), leaf in nulled.items():
            field = self._fields[position]
            leaves = [field.plain, *field.children.values()] if leaf is None else [leaf]
            columns.update((each.column, None) for each in leaves if each is not None)
        return tuple(columns.items())

    def _key_ranges(self, bits: Sequence[FieldBit]) -> dict[FieldBit, Leaf | None]:
        """Return the wanted leaves that bits name; None for a whole compound field."""
        leaves: dict[FieldBit, Leaf | None] = {}
        for position, child in bits:
            field = self._fields.get(position)
            if child is not None and self._layout[position].children is None:
                raise self._error("its header names a part of a field that has none", self._layout[position].name)
            if field is None:
                continue
            if child is None:
                if field.is_whole or field.plain is not None:
                    leaves[position, None] = None if field.is_whole else field.plain
            elif child in field.children:
                leaves[position, child] = field.children[child]
        return leaves


def _unproven(missing: Mapping[str, Collection[int]]) -> frozenset[int]:
    return frozenset().union(*missing.values())
