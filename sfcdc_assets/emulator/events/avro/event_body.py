"""Flat API values of a record -> the event's Avro body and payload (docs/salesforce-streams.md, "Field types" and
"Compound fields").

Stored dates are `yyyy-MM-dd` and times `HH:mm:ss.SSS`; in Avro both are longs: ms at 00:00 UTC, ms since midnight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time
from io import BytesIO

from fastavro import parse_schema, schemaless_writer

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.events.avro.event_schema import (
    EventField,
    event_fields,
    event_schema,
    is_large_text,
    schema_id,
    schema_json,
)
from sfcdc_assets.emulator.events.avro.field_bitmap import encode_field_bitmap, field_positions

_MS_PER_DAY = 86_400_000
_EPOCH = date(1970, 1, 1).toordinal()


def date_to_milliseconds(value: str) -> int:
    """Epoch ms of 00:00 UTC on a `yyyy-MM-dd` date."""
    return (date.fromisoformat(value).toordinal() - _EPOCH) * _MS_PER_DAY


def milliseconds_to_date(value: int) -> str:
    """Return the inverse. Raises ValueError or OverflowError for what is no date of the calendar."""
    return date.fromordinal(_EPOCH + value // _MS_PER_DAY).isoformat()


def time_to_milliseconds(value: str) -> int:
    """Milliseconds since midnight of `HH:mm:ss.SSS` (a trailing Z is allowed)."""
    at = time.fromisoformat(value.removesuffix("Z"))
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1000 + at.microsecond // 1000


CONVERSIONS: Mapping[str, Callable[..., object]] = {
    "date": date_to_milliseconds,
    "time": time_to_milliseconds,
    "double": float,
    "currency": float,
    "percent": float,
}
"""From a stored value to Avro's, by describe type; other types are as they are stored."""


def as_stored(value: object) -> object:
    """Return a value that is the same in Avro."""
    return value


class EventCodec:
    """One version of one entity's events: its schema, and bodies and payloads in that schema. Immutable once built."""

    def __init__(self, definition: ObjectDefinition, more_change_types: Sequence[str] = ()) -> None:
        """`more_change_types` are symbols beyond those that all events know, as a later release may bring."""
        schema = event_schema(definition, more_change_types)
        self.entity = definition.name
        self.schema = schema
        self.schema_json = schema_json(schema)
        self.schema_id = schema_id(schema)
        self.positions = field_positions(schema)
        self.paths: dict[str, str] = {}
        """Flat API name -> path in the event: `BillingCity` -> `BillingAddress.City`, `Phone` -> `Phone`."""
        self.whole_compounds: dict[str, frozenset[str]] = {}
        """Flat name of a custom object's geolocation component -> all its components: any change publishes all. The
        same with preferences of one group."""
        self._flags: set[str] = set()
        self.name_parts: frozenset[str] = frozenset()
        """Components of a name that is either a text or a record of these."""
        self.large_texts: set[str] = set()
        """Flat names of the fields that events may carry as differences."""
        self._conversions: dict[str, Callable[..., object]] = {}
        self._parsed = parse_schema(schema)
        fields = schema["fields"]
        assert isinstance(fields, list)
        self._header = parse_schema(fields[0]["type"])
        for field in event_fields(definition):
            self._add(field, custom_object=definition.custom)

    def _add(self, field: EventField, *, custom_object: bool) -> None:
        if field.flags:
            self.paths.update({flag.name: field.name for flag in field.flags})
            self._flags.update(flag.name for flag in field.flags)
            for group in {flag.bit_group for flag in field.flags}:
                whole = frozenset(flag.name for flag in field.flags if flag.bit_group == group)
                self.whole_compounds.update(dict.fromkeys(whole, whole))
        elif field.record is None:
            self.paths[field.name] = field.name
            self._conversions[field.name] = CONVERSIONS.get(field.definition.type, as_stored)
            if is_large_text(field.definition):
                self.large_texts.add(field.name)
        if field.is_switchable:
            self.paths[field.name] = field.name
            self._conversions[field.name] = as_stored
            self.name_parts = frozenset(component.name for _, component in field.components)
        for name, component in field.components:
            self.paths[component.name] = f"{field.name}.{name}"
            self._conversions[component.name] = CONVERSIONS.get(component.type, as_stored)
        if custom_object and field.record == "Location":
            all_components = frozenset(component.name for _, component in field.components)
            self.whole_compounds.update(dict.fromkeys(all_components, all_components))

    def body(self, values: Mapping[str, object], fields: Iterable[str]) -> dict[str, object]:
        """Return the body with `fields` (flat API names) set from `values`; every other field is null by the schema's
        default.

        Names that the schema does not have are ignored: formula fields, IsDeleted and others that events leave out.
        """
        body: dict[str, object] = {}
        for name in fields:
            path, value = self.paths.get(name), values.get(name)
            if path is None or value is None:
                continue
            if name in self._flags:
                true_ones = body.setdefault(path, [])
                assert isinstance(true_ones, list)
                true_ones += [name.removeprefix(path)] if value else []
                continue
            compound, _, component = path.partition(".")
            converted = self._conversions[name](value)
            if component:
                record = body.setdefault(compound, {})
                assert isinstance(record, dict)
                record[component] = converted
            else:
                body[compound] = converted
        return body

    def bitmap(self, fields: Iterable[str]) -> list[str]:
        """Return the bitmap of flat API names; names that the schema does not have are left out."""
        paths = [self.paths[name] for name in fields if name in self.paths]
        return encode_field_bitmap(paths, self.positions) if paths else []

    def payload(self, header: Mapping[str, object], body: Mapping[str, object]) -> bytes:
        """Bare Avro binary: no file header, no single-object prefix."""
        buffer = BytesIO()
        schemaless_writer(buffer, self._parsed, {"ChangeEventHeader": header, **body})
        return buffer.getvalue()

    def header_payload(self, header: Mapping[str, object]) -> bytes:
        """Return the beginning of a payload: its header, without the body that must follow."""
        buffer = BytesIO()
        schemaless_writer(buffer, self._header, header)
        return buffer.getvalue()
