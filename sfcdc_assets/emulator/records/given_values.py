"""Values that a client gives for a record, checked against the object's fields and the records they refer to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.record_types import FIELD as RECORD_TYPE
from sfcdc_assets.emulator.definitions.record_types import record_types
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.store import RecordStore
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import stored_value


@dataclass(frozen=True)
class GivenValues:
    """Checks values of one transaction. `hidden_fields`: by object, what whoever gives them does not know."""

    definitions: Mapping[str, ObjectDefinition]
    store: RecordStore
    hidden_fields: Callable[[str], Collection[str]]

    def checked(
        self,
        definition: ObjectDefinition,
        values: Mapping[str, object],
        *,
        creating: bool,
        record_id: str | None = None,
    ) -> dict[str, StoredValue]:
        """Return the values as they are stored, by the fields' names. `record_id`: of the record that has them from now
        on, if it is there already. Raises RecordError."""
        given: dict[str, StoredValue] = {}
        for name, value in values.items():
            field = definition.field(name)
            if field is None or field.name in self.hidden_fields(definition.name):
                raise RecordError(
                    "INVALID_FIELD", f"No such column '{name}' on sobject of type {definition.name}", (name,)
                )
            if not (field.createable if creating else field.updateable):
                raise RecordError(
                    "INVALID_FIELD_FOR_INSERT_UPDATE",
                    f"Unable to create/update fields: {field.name}. Please check the security settings of this field "
                    "and verify that it is read/write for your profile or permission set.",
                    (field.name,),
                )
            given[field.name] = stored_value(field, value)
            self._check_reference(definition, field, given[field.name])
            self._check_unique(definition, field, given[field.name], record_id)
        return given

    def _check_reference(self, definition: ObjectDefinition, field: FieldDefinition, value: StoredValue) -> None:
        if field.type != "reference" or not isinstance(value, str):
            return
        if field.name == RECORD_TYPE:
            self._check_record_type(definition, value)
            return
        known = [self.definitions[name] for name in field.reference_to if name in self.definitions]
        if len(known) < len(field.reference_to) and not any(value.startswith(d.key_prefix) for d in known):
            return
        target = next((definition for definition in known if value.startswith(definition.key_prefix)), None)
        if target is None:
            raise RecordError(
                "FIELD_INTEGRITY_EXCEPTION", f"{field.label}: id value of incorrect type: {value}", (field.name,)
            )
        if not self.store.exists(target, value):
            raise RecordError("INVALID_CROSS_REFERENCE_KEY", "invalid cross reference id", (field.name,))

    def _check_record_type(self, definition: ObjectDefinition, value: str) -> None:
        known = [each.id for each in record_types(definition, self.store.instance)]
        if known and value not in known:
            message = f"Record Type ID: this ID value isn't valid for the user: {value}"
            raise RecordError("INVALID_CROSS_REFERENCE_KEY", message, (RECORD_TYPE,))

    def _check_unique(
        self, definition: ObjectDefinition, field: FieldDefinition, value: StoredValue, record_id: str | None
    ) -> None:
        if not field.unique or not isinstance(value, str):
            return
        holder = self.store.holder_of(definition, field, value)
        if holder is not None and (record_id is None or holder != to_18(record_id)):
            raise RecordError(
                "DUPLICATE_VALUE",
                f"duplicate value found: {field.name} duplicates value on record with id: {holder[:15]}",
                (field.name,),
            )
