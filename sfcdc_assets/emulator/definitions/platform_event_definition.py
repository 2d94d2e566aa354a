"""Reads definitions of platform events from YAML: one file an event, one line a field, in the form of object files.

    name: Order_Event__e
    label: Order Event
    key_prefix: e01
    high_volume: true                   # the default; false: a standard-volume event, kept for 24 hours
    publish: immediately                # the default; or after_commit, which a rolled back transaction never publishes
    fields:
      - Order_Number__c: {type: string, required: true}
      - Amount__c: {type: double}

`ReplayId`, `CreatedDate` and `CreatedById` are implied. Fields may be checkboxes, dates, moments, numbers, texts and
long texts (https://developer.salesforce.com/docs/platform/platform-events/guide/platform-events-define-ui.html).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import BUILT_IN_OBJECTS, yaml_mapping
from sfcdc_assets.emulator.errors import ObjectDefinitionError
from sfcdc_assets.emulator.org.settings import HOUR

_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*__e")
_TYPES = ("string", "long_text", "textarea", "boolean", "double", "date", "datetime")
_PUBLISH = {"immediately": True, "after_commit": False}
_READ_ONLY: Mapping[str, Any] = {"createable": False, "updateable": False}
_SYSTEM_FIELDS = (
    FieldDefinition("ReplayId", "Replay ID", "string", length=240, **_READ_ONLY),
    FieldDefinition("CreatedDate", "Created Date", "datetime", nillable=False, **_READ_ONLY),
    FieldDefinition(
        "CreatedById",
        "Created By ID",
        "reference",
        length=18,
        nillable=False,
        reference_to=("User",),
        relationship_name="CreatedBy",
        **_READ_ONLY,
    ),
)


@dataclass(frozen=True)
class PlatformEventDefinition:
    """One event. `shape` has its fields as describe shows them; the schema of its messages is made from them."""

    shape: ObjectDefinition
    is_high_volume: bool = True
    """Standard-volume events are kept for 24 hours, on no custom channel, and unknown to the Pub/Sub API."""
    is_immediate: bool = True
    """Published even if the transaction around is rolled back."""

    @property
    def name(self) -> str:
        """The event's API name."""
        return self.shape.name

    @property
    def retention_ms(self) -> int:
        """How long the bus serves its messages."""
        return 72 * HOUR if self.is_high_volume else 24 * HOUR

    @cached_property
    def custom_fields(self) -> tuple[FieldDefinition, ...]:
        """What a publisher fills in, in the order of the schema."""
        return tuple(field for field in self.shape.fields if field.custom)

    @cached_property
    def filterable(self) -> ObjectDefinition:
        """The shape with an id, which every query needs: for the filters of channel members."""
        record_id = FieldDefinition("Id", "Event ID", "id", length=18, nillable=False, **_READ_ONLY)
        return self.shape.with_fields((record_id, *self.shape.fields))

    def with_fields(self, custom_fields: tuple[FieldDefinition, ...]) -> PlatformEventDefinition:
        """Return the same event with other fields of its own: its next message has another schema."""
        return replace(self, shape=self.shape.with_fields((*_SYSTEM_FIELDS, *custom_fields)))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form that `from_json` reads back to an equal definition."""
        facts = {"is_high_volume": self.is_high_volume, "is_immediate": self.is_immediate}
        return {"shape": self.shape.to_json(), **facts}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PlatformEventDefinition:
        """Return the inverse of `to_json`."""
        return cls(**{**document, "shape": ObjectDefinition.from_json(document["shape"])})


@cache
def built_in_event_definitions() -> tuple[PlatformEventDefinition, ...]:
    """Return the events every emulated org has unless told otherwise."""
    return load_event_definitions(BUILT_IN_OBJECTS / "events")


def load_event_definitions(folder: Path) -> tuple[PlatformEventDefinition, ...]:
    """All `*.yaml` of a folder, by name. Raises ObjectDefinitionError for a wrong file."""
    found = []
    for path in sorted(folder.glob("*.yaml")):
        document = yaml_mapping(path)
        found.append(event_definition(document, path))
    return tuple(found)


def event_definition(document: Mapping[str, Any], source: Path | str = "given") -> PlatformEventDefinition:
    """One event from the mapping a file holds. Raises ObjectDefinitionError naming `source`."""
    missing = {"name", "label", "key_prefix", "fields"} - document.keys()
    if missing:
        raise ObjectDefinitionError(source, f"lacks {', '.join(sorted(missing))}")
    name = str(document["name"])
    if not _NAME.fullmatch(name):
        raise ObjectDefinitionError(source, f"{name!r} is no name of a platform event: letters, digits, __e at the end")
    if not re.fullmatch(r"e[0-9A-Za-z]{2}", str(document["key_prefix"])):
        raise ObjectDefinitionError(source, "key_prefix must be e and two letters or digits, in quotes")
    publish = document.get("publish", "immediately")
    if publish not in _PUBLISH:
        raise ObjectDefinitionError(source, f"publish must be one of {', '.join(_PUBLISH)}")
    fields = tuple(event_field(name, entry, source) for entry in document["fields"])
    names = [field.name.lower() for field in fields]
    if len(set(names)) < len(names):
        raise ObjectDefinitionError(source, "a field is there twice")
    label = str(document["label"])
    shape = ObjectDefinition(
        name=name,
        label=label,
        label_plural=str(document.get("label_plural", label + "s")),
        key_prefix=str(document["key_prefix"]),
        fields=(*_SYSTEM_FIELDS, *fields),
        deletable=False,
        name_field=None,
    )
    return PlatformEventDefinition(shape, bool(document.get("high_volume", True)), _PUBLISH[publish])


def event_field(event: str, entry: object, source: Path | str = "given") -> FieldDefinition:
    """One field from its entry `{Name__c: {type: ...}}`. Raises ObjectDefinitionError."""
    if not (isinstance(entry, dict) and len(entry) == 1 and isinstance(next(iter(entry.values())), dict)):
        raise ObjectDefinitionError(source, f"{entry!r} is not of the form `- Name__c: {{type: ...}}`")
    ((name, options),) = entry.items()
    if not str(name).endswith("__c") or options.get("type") not in _TYPES:
        raise ObjectDefinitionError(source, f"field {name}: a name ends with __c, a type is one of {', '.join(_TYPES)}")
    return field_definition(event, str(name), options)
