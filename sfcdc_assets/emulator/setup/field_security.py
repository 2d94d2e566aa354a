"""Field-level security: fields the client's user may not see (docs/salesforce-streams.md, "Permissions").

To describe, SOQL and REST a hidden field does not exist. Events keep it in their schema and carry no value of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.org_core import OrgCore

_SETTING = "hidden_fields"
_ALWAYS_SEEN = frozenset(
    {"Id", "IsDeleted", "CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById", "SystemModstamp"}
)


class FieldSecurity:
    """What one org hides from its client, kept in its database. What is committed before a change is not affected."""

    def __init__(self, org: OrgCore) -> None:
        self._org = org
        kept = json.loads(org.database.setting(_SETTING) or "{}")
        self._hidden = {entity: frozenset(names) for entity, names in kept.items()}
        self._visible: dict[str, tuple[ObjectDefinition, frozenset[str], ObjectDefinition]] = {}

    def hide(self, entity: str, name: str) -> None:
        """Hide a field, with its components if it is a compound. Raises RecordError for fields everybody sees: the
        required ones, the name and the audit fields."""
        definition, field = self._field(entity, name)
        is_required = not field.nillable and field.type != "boolean"
        if field.name in _ALWAYS_SEEN or is_required or field.name == definition.name_field:
            raise RecordError("INVALID_OPERATION", f"{entity}.{name} cannot be hidden", (name,))
        self._set(entity, self.hidden(entity) | self._family(definition, field))

    def show(self, entity: str, name: str) -> None:
        """Show a field again. Raises RecordError if the object has no such field."""
        definition, field = self._field(entity, name)
        self._set(entity, self.hidden(entity) - self._family(definition, field))

    def follow(self, entity: str, names: Mapping[str, str | None]) -> None:
        """Fields were given other names, or dropped (None)."""
        hidden = self.hidden(entity)
        if hidden & names.keys():
            followed = {names.get(name, name) for name in hidden}
            self._set(entity, frozenset(name for name in followed if name is not None))

    def hidden(self, entity: str) -> frozenset[str]:
        """Return the names of an object's hidden fields."""
        return self._hidden.get(entity, frozenset())

    def visible(self, definition: ObjectDefinition) -> ObjectDefinition:
        """Return the object as the client sees it."""
        hidden = self.hidden(definition.name)
        if not hidden:
            return definition
        known = self._visible.get(definition.name)
        if known is None or known[0] is not definition or known[1] != hidden:
            fields = tuple(field for field in definition.fields if field.name not in hidden)
            known = self._visible[definition.name] = (definition, hidden, definition.with_fields(fields))
        return known[2]

    @property
    def visible_definitions(self) -> Mapping[str, ObjectDefinition]:
        """All objects as the client sees them."""
        if not any(self._hidden.values()):
            return self._org.definitions
        return {name: self.visible(definition) for name, definition in self._org.definitions.items()}

    def _set(self, entity: str, hidden: frozenset[str]) -> None:
        with self._org.database.transaction():
            self._hidden = {**self._hidden, entity: hidden}
            document = {name: sorted(names) for name, names in self._hidden.items()}
            self._org.database.set_setting(_SETTING, json.dumps(document))
            self._org.note_modified()

    def _field(self, entity: str, name: str) -> tuple[ObjectDefinition, FieldDefinition]:
        definition = self._org.definitions.get(entity)
        field = definition.field(name) if definition else None
        if definition is None or field is None:
            raise RecordError("INVALID_FIELD", f"{entity} has no field {name}", (name,))
        return definition, field

    def _family(self, definition: ObjectDefinition, field: FieldDefinition) -> frozenset[str]:
        return frozenset({field.name, *(part.name for part in definition.components.get(field.name, ()))})
