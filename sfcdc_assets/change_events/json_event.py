"""Change events in JSON, as CometD delivers them (docs/salesforce-streams.md, "Streaming API (CometD)").

Fields are named, not numbered: `changedFields` has names, and nulledFields and diffFields are absent. A field that is
written as null was nulled, one that is an object with the key `diff` holds a diff, and a part of a compound field that
is not written was not changed. What the body does not say is not made up: a field that is named as changed and not
carried makes the event undecodable, so that its records are read from the org. So does a time of day in place of a date
or a moment, and one of these in place of it: it was written before the field had its type, or after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from sfcdc_assets.change_events.cell_value import source_kind
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent, header_of
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.errors import HeaderError, PayloadError
from sfcdc_assets.change_events.event_cells import EventCells, Update
from sfcdc_assets.change_events.event_schema import (
    HEADER_FIELD,
    FieldBit,
    entity_of_schema,
    parse_event_schema,
    schema_fields,
)
from sfcdc_assets.change_events.json_values import avro_value
from sfcdc_assets.change_events.wanted_field import wanted_fields
from sfcdc_assets.runtime.foreign_text import unicode_text

_REMEMBERED_UPDATES = 1024
_DIFF = "diff"
_TEXTS = ("entityName", "changeType", "changeOrigin", "transactionKey", "commitUser")
_NUMBERS = ("sequenceNumber", "commitTimestamp", "commitNumber")
_LISTS = ("recordIds", "changedFields")


def read_json_header(payload: bytes, _: Mapping[str, Any] | None = None) -> ChangeEventHeader:
    """Return the header of an event in JSON; no schema is needed. Raises `HeaderError`."""
    return _header(_parsed(payload))


class JsonEventDecoder:
    """Decodes the JSON payloads of one schema id to the cells of one entity's columns, as `EventDecoder` does Avro's.

    The schema is the same one: it has the types, and which fields there are.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        """Read the schema. Raise `EventSchemaError` when `schema_json` is no change event schema."""
        schema = parse_event_schema(schema_json)
        layout = schema_fields(schema)
        self._fields = {field.name: field for field in layout[1:]}
        self._nothing = dict.fromkeys([HEADER_FIELD, *self._fields])
        self._entity = entity_of_schema(schema)
        self._cells = EventCells(self._entity, layout, columns)
        wanted = wanted_fields(layout, columns)
        self._wanted = wanted.keys()
        plain = ((layout[at], of.plain) for at, of in wanted.items() if of.plain is not None)
        self._kinds = {field.name: source_kind(field, columns[leaf.column]) for field, leaf in plain}
        self._update = lru_cache(maxsize=_REMEMBERED_UPDATES)(self._compile_update)

    def decode(self, payload: bytes) -> DecodedEvent:
        """Return the event and the cells it sets (see `EventCells.event`).

        Raises `HeaderError`, and `PayloadError` for fields and values that the schema does not have.
        """
        values = _parsed(payload)
        header = _header(values)
        body, diffs = dict(self._nothing), []
        for name in values.keys() - {HEADER_FIELD}:
            field, value = self._fields.get(name), values[name]
            if field is None:
                self._refuse("its JSON has a field that its schema lacks", name)
            is_diff = isinstance(value, dict) and field.scalar == "string" and value.keys() == {_DIFF}
            if is_diff:
                diffs.append((field.position, None))
            try:
                body[name] = avro_value(field, value[_DIFF] if is_diff else value, self._kinds.get(name))
            except (ValueError, OverflowError) as error:
                self._refuse(f"its JSON does not fit the schema ({error})", name)
        update = None
        if header.change_type is ChangeType.UPDATE:
            named: dict[FieldBit, None] = {}
            for name in values[HEADER_FIELD]["changedFields"]:
                named.update(dict.fromkeys(self._bits(name, values)))
            update = self._update(tuple(named), tuple(sorted(diffs)))
        return self._cells.event(header, body, update)

    def _bits(self, path: str, values: Mapping[str, Any]) -> list[FieldBit]:
        """Return what a name among `changedFields` stands for. A compound field that is named as a whole and written in
        parts changed in these parts."""
        parent, _, child = path.partition(".")
        field = self._fields.get(parent)
        if field is None:
            self._refuse("its header names a field that its schema lacks", parent)
        if parent not in values:
            if field.position in self._wanted:
                self._refuse("its header names a field as changed that it does not carry", path)
            return []
        value = values[parent]
        parts = {part.name: part.position for part in field.children or ()}
        if child:
            if child not in parts:
                self._refuse("its header names a part that the field does not have", path)
            if isinstance(value, dict) and child not in value and field.position in self._wanted:
                self._refuse("its header names a field as changed that it does not carry", path)
            return [(field.position, parts[child])]
        if isinstance(value, dict) and parts and value:
            return [(field.position, parts[name]) for name in value if name in parts]
        return [(field.position, None)]

    def _compile_update(self, changed: tuple[FieldBit, ...], diffs: tuple[FieldBit, ...]) -> Update:
        return self._cells.update(changed, (), diffs)

    def _refuse(self, problem: str, field: str) -> NoReturn:
        raise PayloadError(self._entity, problem, field)


def _parsed(payload: bytes) -> dict[str, Any]:
    try:
        values = json.loads(payload, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"it is not JSON ({error})") from None
    if not isinstance(values, dict) or not isinstance(values.get(HEADER_FIELD), dict):
        raise HeaderError(f"its JSON has no {HEADER_FIELD}")
    return values


def _header(values: Mapping[str, Any]) -> ChangeEventHeader:
    head = values[HEADER_FIELD]
    for names, kind in ((_TEXTS, str), (_NUMBERS, int), (_LISTS, list)):
        for name in names:
            value = head.get(name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise HeaderError(f"its {name} is {'absent' if name not in head else 'of another type'}")
    if not all(isinstance(each, str) for name in _LISTS for each in head[name]):
        raise HeaderError("its recordIds or changedFields are not texts")
    texts = {name: unicode_text(head[name]) for name in _TEXTS}
    if any(unicode_text(each) != each for each in head["recordIds"]):
        raise HeaderError("its recordIds are not texts of Unicode")
    if not -(2**63) <= head["commitNumber"] < 2**63:
        raise HeaderError("its commitNumber is no such thing")
    return header_of({**head, **texts}, texts["changeType"])


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
