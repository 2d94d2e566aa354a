"""One change event's payload, decoded to cells: which columns it sets, and to what.

What is *not* a cell is as important as what is: in an update the schema's other fields are null on the wire although
the record has values (docs/salesforce-streams.md, "Values by operation"). Only the bitmaps tell a nulled field from an
unchanged one.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fastavro

from sfcdc_assets.change_events.bitmap import FieldBit, covers, field_bits
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.checkboxes import Checkboxes
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.enriched_values import Named, enriched, named_fields
from sfcdc_assets.change_events.errors import PayloadError
from sfcdc_assets.change_events.event_schema import (
    HEADER_FIELD,
    compile_avro,
    header_schema,
    parse_event_schema,
    schema_fields,
)
from sfcdc_assets.change_events.header import (
    AVRO_READ_ERRORS,
    ChangeEventHeader,
    header_from_values,
    plain_change_type,
)
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.change_events.wanted_field import Leaf, WantedField, wanted_fields

Cell = tuple[int, CellValue]
"""A column's index and its value; None is an explicit null."""

_PARTS_ONLY = "the event tells the parts, not what they are together"
_REMEMBERED_UPDATES = 1024
"""Updates of an org repeat a few sets of fields; what each set means is worked out once."""


@dataclass(frozen=True, slots=True)
class DecodedEvent:
    """One event: its header, the cells it sets (each column at most once), which of them hold a diff, its enriched
    values."""

    header: ChangeEventHeader
    cells: list[Cell]
    diff_columns: frozenset[int]
    """Columns whose cell is not the value but a diff to the value before (large text)."""
    missing: str | None = None
    """What the event changed without telling the value, in words; only reading the record back does."""
    enriched: Sequence[Cell] = ()
    """Columns that the event did not change, and what it says is in them (see `enriched`). Never null, never a diff."""


@dataclass(frozen=True, slots=True)
class _Update:
    """What one set of bitmaps means: explicit nulls, and what is read from where."""

    nulls: tuple[Cell, ...]
    plain: tuple[tuple[str, Leaf], ...]
    parts: tuple[tuple[str, Leaf], ...]
    whole: tuple[WantedField, ...]
    diffs: frozenset[int]
    missing: frozenset[str]
    """Switchable fields of which parts changed: what they are together is not told."""
    named: Named


class EventDecoder:
    """Decodes the payloads of one schema id to the cells of one entity's columns; compiled once, used for many.

    Columns the schema does not carry get no cell; fields without a column are read and dropped. Not to be pickled:
    make one where it is used.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        """Raises `EventSchemaError` when `schema_json` is no change event schema."""
        schema = parse_event_schema(schema_json)
        header, self._symbols = plain_change_type(header_schema(schema))
        self._layout = schema_fields(schema)
        self._entity = str(schema.get("name", "")).removesuffix("ChangeEvent").removesuffix("__")
        self._fields = wanted_fields(self._layout, columns)
        self._lists = [field for field in self._fields.values() if field.checkboxes is not None]
        body = {**schema, "fields": [{**schema["fields"][0], "type": header}, *schema["fields"][1:]]}
        self._avro_schema = compile_avro(body)
        self._nothing_named = named_fields((), self._layout)
        self._update = lru_cache(maxsize=_REMEMBERED_UPDATES)(self._compile_update)

    def decode(self, payload: bytes) -> DecodedEvent:
        """The event and the cells it sets.

        A create or undelete sets every column its schema carries, an update exactly what its bitmaps name; a delete, a
        gap and what is not known to carry values set nothing. What an update or a delete carries beside is a claim.

        Raises `PayloadError` for bytes that are cut off, left over or of another schema, `HeaderError`, `BitmapError`.
        """
        source = io.BytesIO(payload)
        try:
            body: Any = fastavro.schemaless_reader(source, self._avro_schema)
        except AVRO_READ_ERRORS as error:
            raise self._error(f"its bytes do not fit the schema ({type(error).__name__}: {error})") from None
        if source.tell() != len(payload):
            raise self._error(f"{len(payload) - source.tell()} bytes are left over, so this is not the event's schema")
        header = header_from_values(body[HEADER_FIELD], self._symbols)
        if header.change_type is ChangeType.UPDATE:
            update = self._update(header.changed_fields, header.nulled_fields, header.diff_fields)
            missing: dict[str, None] = {f"{name}: {_PARTS_ONLY}": None for name in sorted(update.missing)}
            cells = self._changed(body, update, missing)
            # A null is a null, whatever the bitmap of diffs says.
            diffs = update.diffs and update.diffs.intersection(column for column, value in cells if value is not None)
            carried = enriched(body, update.named, self._fields)
            return DecodedEvent(header, cells, diffs, "; ".join(missing) or None, carried)
        if header.change_type.carries_all_fields:
            missing = {}
            return DecodedEvent(header, self._all(body, missing), frozenset(), "; ".join(missing) or None)
        if header.change_type is ChangeType.DELETE:
            carried = enriched(body, self._nothing_named, self._fields)
            return DecodedEvent(header, [], frozenset(), enriched=carried)
        return DecodedEvent(header, [], frozenset())

    def _all(self, body: dict[str, Any], missing: dict[str, None]) -> list[Cell]:
        cells: list[Cell] = []
        self._checkboxes(self._lists, body, cells, missing)
        for field in self._fields.values():
            if field.compound:
                self._whole(field, body[field.name], cells, missing)
            elif field.plain is not None:
                cells.append((field.plain.column, self._value(field.name, field.plain, body[field.name])))
        return cells

    def _changed(self, body: dict[str, Any], update: _Update, missing: dict[str, None]) -> list[Cell]:
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
        self, fields: Iterable[WantedField], body: dict[str, Any], cells: list[Cell], missing: dict[str, None]
    ) -> None:
        """The checkboxes of the lists among the fields."""
        touched: dict[str, tuple[Checkboxes, list[str]]] = {}
        for field in fields:
            if field.checkboxes is not None:
                touched.setdefault(field.checkboxes.stem, (field.checkboxes, []))[1].append(field.name)
        for checkboxes, lists in touched.values():
            carried, problem = checkboxes.read(body, lists)
            cells.extend(carried)
            if problem is not None:
                missing[problem] = None

    def _whole(self, field: WantedField, value: Any, cells: list[Cell], missing: dict[str, None]) -> None:
        """A value with its parts. One that is a text has no parts: what was a person's name is a business's now."""
        if field.plain is not None and isinstance(value, dict):
            missing[f"{field.name}: {_PARTS_ONLY}"] = None
        elif field.plain is not None:
            cells.append((field.plain.column, self._value(field.name, field.plain, value)))
        parts = value if isinstance(value, dict) else None
        for leaf in field.children.values():
            cells.append((leaf.column, self._part(field.name, leaf, parts)))

    def _part(self, name: str, leaf: Leaf, record: Any) -> CellValue:
        if record is None:
            return None
        if not isinstance(record, dict):
            raise self._error("its bitmap names a part of a value that has none", f"{name}.{leaf.child}")
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

    def _compile_update(
        self, changed_fields: tuple[str, ...], nulled_fields: tuple[str, ...], diff_fields: tuple[str, ...]
    ) -> _Update:
        nulled = self._key_ranges(nulled_fields)
        sent = {bit: leaf for bit, leaf in self._key_ranges(diff_fields).items() if not covers(nulled, bit)}
        diffs = frozenset(leaf.column for leaf in sent.values() if leaf is not None)
        # A diff is a change even if the other bitmap forgot it: its value was sent.
        sent |= {bit: leaf for bit, leaf in self._key_ranges(changed_fields).items() if not covers(nulled, bit)}
        # A list of checkboxes that is null has no true one.
        sent |= {bit: leaf for bit, leaf in nulled.items() if self._fields[bit[0]].checkboxes is not None}
        # A whole compound field is read from the body, its nulled parts with it.
        nulled = {bit: leaf for bit, leaf in nulled.items() if bit not in sent and (bit[0], None) not in sent}
        plain, parts, whole = [], [], []
        for (position, child), leaf in sent.items():
            field = self._fields[position]
            if leaf is None:
                whole.append(field)
            elif child is None:
                plain.append((field.name, leaf))
            elif (position, None) not in sent:
                parts.append((field.name, leaf))
        missing = self._switchable((*changed_fields, *nulled_fields)) - {field.name for field in whole}
        bits = {bit for each in (changed_fields, nulled_fields, diff_fields) for bit in field_bits(each, self._layout)}
        return _Update(
            self._nulls(nulled),
            tuple(plain),
            tuple(parts),
            tuple(whole),
            diffs,
            frozenset(missing),
            named_fields(bits, self._layout),
        )

    def _switchable(self, bitmaps: Sequence[str]) -> set[str]:
        """The fields of which parts are named and the whole is wanted, whether or not the parts are."""
        positions = {position for position, child in field_bits(bitmaps, self._layout) if child is not None}
        fields = (self._fields.get(position) for position in positions)
        return {field.name for field in fields if field is not None and field.compound and field.plain is not None}

    def _nulls(self, nulled: dict[FieldBit, Leaf | None]) -> tuple[Cell, ...]:
        columns: dict[int, None] = {}
        for (position, _), leaf in nulled.items():
            field = self._fields[position]
            leaves = [field.plain, *field.children.values()] if leaf is None else [leaf]
            columns.update((each.column, None) for each in leaves if each is not None)
        return tuple(columns.items())

    def _key_ranges(self, bitmap: Sequence[str]) -> dict[FieldBit, Leaf | None]:
        """The wanted leaves a bitmap names; None for a whole compound field."""
        leaves: dict[FieldBit, Leaf | None] = {}
        for position, child in field_bits(bitmap, self._layout):
            field = self._fields.get(position)
            if child is not None and self._layout[position].children is None:
                raise self._error("its bitmap names a part of a field that has none", self._layout[position].name)
            if field is None:
                continue
            if child is None:
                if field.is_whole or field.plain is not None:
                    leaves[position, None] = None if field.is_whole else field.plain
            elif child in field.children:
                leaves[position, child] = field.children[child]
        return leaves
