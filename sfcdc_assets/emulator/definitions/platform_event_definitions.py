"""The platform events that an org defines, kept in its database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sfcdc_assets.emulator.definitions.platform_event_definition import (
    PlatformEventDefinition,
    built_in_event_definitions,
    event_field,
)
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.events.platform_events.event_codec import PlatformEventCodec
from sfcdc_assets.emulator.org.org_core import OrgCore


class PlatformEventDefinitions:
    """Those of one org. A definition that changes gives the next message a new schema; messages on the bus keep
    theirs."""

    def __init__(self, org: OrgCore, definitions: Sequence[PlatformEventDefinition] | None = None) -> None:
        """`definitions` (default: the built-in ones) set up a new org; one that exists keeps its own."""
        self._org = org
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _platform_event (name TEXT PRIMARY KEY, definition TEXT NOT NULL)"
        )
        self._codecs: dict[str, PlatformEventCodec] = {}
        if self._database.setting("platform_events") is None:
            self._database.set_setting("platform_events", "1")
            for each in built_in_event_definitions() if definitions is None else definitions:
                self._save(each)
        rows = self._database.rows("SELECT definition FROM _platform_event ORDER BY name")
        found = [PlatformEventDefinition.from_json(json.loads(row[0])) for row in rows]
        self._known: dict[str, PlatformEventDefinition] = {each.name: each for each in found}

    @property
    def all(self) -> Mapping[str, PlatformEventDefinition]:
        """By name."""
        return self._known

    def define(self, definition: PlatformEventDefinition) -> None:
        """Add an event, or replace the one of that name. Raises RecordError for a key prefix that is another's."""
        with self._database.transaction():
            for other in (*(each.shape for each in self._known.values()), *self._org.definitions.values()):
                if other.key_prefix == definition.shape.key_prefix and other.name != definition.name:
                    raise RecordError("INVALID_OPERATION", f"key prefix {other.key_prefix} is that of {other.name}")
            self._save(definition)
            self._known = {**self._known, definition.name: definition}
            self._org.note_modified()

    def add_field(self, event: str, name: str, options: Mapping[str, Any]) -> None:
        """Add a field behind the others. Raises RecordError and ObjectDefinitionError."""
        definition = self._of(event)
        if definition.shape.field(name) is not None:
            raise RecordError("DUPLICATE_DEVELOPER_NAME", f"There is already a field named {name} on {event}.", (name,))
        self.define(definition.with_fields((*definition.custom_fields, event_field(event, {name: dict(options)}))))

    def drop_field(self, event: str, name: str) -> None:
        """Remove a field. Raises RecordError."""
        definition = self._of(event)
        kept = tuple(field for field in definition.custom_fields if field.name != name)
        if len(kept) == len(definition.custom_fields):
            raise RecordError("INVALID_FIELD", f"{event} has no field {name}", (name,))
        self.define(definition.with_fields(kept))

    def find(self, name: str) -> PlatformEventDefinition | None:
        """Return the event a path or a record names, whatever the case of its letters, if the client may see it."""
        for each in self._known.values():
            if each.name.lower() == name.lower() and each.name not in self._org.hidden_objects:
                return each
        return None

    def codec(self, name: str) -> PlatformEventCodec:
        """Return the codec of an event's newest schema. Raises KeyError."""
        definition = self._known[name]
        known = self._codecs.get(name)
        if known is None or known.definition is not definition:
            known = self._codecs[name] = PlatformEventCodec(definition)
        return known

    def _of(self, name: str) -> PlatformEventDefinition:
        if name not in self._known:
            raise RecordError("NOT_FOUND", f"there is no platform event {name}", status=404)
        return self._known[name]

    def _save(self, definition: PlatformEventDefinition) -> None:
        self._database.execute(
            "INSERT INTO _platform_event VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET definition = "
            "excluded.definition",
            (definition.name, json.dumps(definition.to_json())),
        )
