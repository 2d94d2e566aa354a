"""The schema of a polled object: the fields that its tables have as columns, in the form of a change event's schema.

They are those that a change event of the object would carry, so that its tables are the same whichever way it is fed.
Of an object that has a change event the org says which these are, whether or not the event is selected (Change Data
Capture Developer Guide, "Change Event Fields"). Of another one: no formulas, no field that is made of others, none that
says what one user did, and none of those that the copy is kept with.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any

from sfcdc_assets.change_events.columns import columns
from sfcdc_assets.change_events.event_schema import HEADER_FIELD
from sfcdc_assets.salesforce.object_description import COMPOUND_TYPES, ObjectDescription

PREFIX = "describe:"
"""Of the ids of schemas that no event was written with."""
_OF_THE_USER = frozenset({"LastViewedDate", "LastReferencedDate", "LastActivityDate"})
_OF_THE_COPY = frozenset({"Id", "IsDeleted", "SystemModstamp", "MasterRecordId"})
_BINARY = "base64"
_WANTED = "wanted"


def polled_fields(
    description: ObjectDescription, carried: Collection[str] | None = None, wanted: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return the fields that a polled object's tables have beside `Id`, in describe's order. `carried`: those of its
    change event, in lower case; None where it has none. `wanted`: these of them alone, in any case, and files that are
    named among them; None for all."""
    if wanted is not None:
        named = {each.lower() for each in wanted}
        files = set(binary_fields(description))
        every = {*polled_fields(description, carried), *files}
        return tuple(each.name for each in description.fields if each.name in every and each.name.lower() in named)
    made_of_others = {each.compound_field_name for each in description.fields if each.compound_field_name}
    return tuple(
        field.name
        for field in description.fields
        if not (
            (field.calculated and (carried is None or field.calculated_formula is not None))
            or field.type in COMPOUND_TYPES
            or field.type == _BINARY
            or field.name in _OF_THE_USER | _OF_THE_COPY
            or (field.name in made_of_others and description.parts_of(field.name))
            or (carried is not None and field.name.lower() not in carried)
        )
    )


def binary_fields(description: ObjectDescription) -> tuple[str, ...]:
    """Return the fields whose values are files, which are left out."""
    return tuple(field.name for field in description.fields if field.type == _BINARY)


def carried_fields(event_schema: Mapping[str, Any], description: ObjectDescription) -> frozenset[str]:
    """Return the fields that a change event carries, in lower case. Raises `EventSchemaError`."""
    return frozenset(column.name.lower() for column in columns(event_schema, description))


def schema_of(
    description: ObjectDescription, carried: Collection[str] | None = None, wanted: Collection[str] | None = None
) -> tuple[str, str]:
    """Return the id of the object's schema, which says what is in it (`polled_fields`), and the schema in Avro's
    JSON, with what was `wanted` beside it."""
    header = {"name": HEADER_FIELD, "type": "null"}
    fields = [{"name": name, "type": ["null", "string"]} for name in polled_fields(description, carried, wanted)]
    named = {} if wanted is None else {_WANTED: _in_one_case(wanted)}
    schema_json = json.dumps({"type": "record", "name": description.name, "fields": [header, *fields], **named})
    return PREFIX + blake2b(schema_json.encode(), digest_size=8).hexdigest(), schema_json


def is_for(schema_json: str, wanted: Collection[str] | None) -> bool:
    """Return whether the schema of a polled object was made for these `wanted` fields."""
    found: list[str] | None = json.loads(schema_json).get(_WANTED)
    return found == (None if wanted is None else _in_one_case(wanted))


def _in_one_case(names: Collection[str]) -> list[str]:
    return sorted({each.lower() for each in names})


def is_of_describe(schema_id: str) -> bool:
    """Return whether no event was written with the schema."""
    return schema_id.startswith(PREFIX)
