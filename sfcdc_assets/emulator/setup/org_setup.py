"""What an administrator changes while the org lives: fields and objects.

Each change shows in describe, SOQL and REST at once, and the object's next event has a new schema; events that are on
the bus keep theirs. What becomes of records raises no event, except where a type conversion does
(docs/salesforce-streams.md, "Field type conversions").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sfcdc_assets.emulator.definitions.field_notation import custom_field_id, field_definitions
from sfcdc_assets.emulator.definitions.object_definition import TEXTS_ENCRYPTED, FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.definitions.record_types import developer_name, with_record_types
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.formulas.formula_field import check_formula, fields_read
from sfcdc_assets.emulator.formulas.parser import FormulaSyntaxError
from sfcdc_assets.emulator.org.database import quoted
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.field_value import stored_value
from sfcdc_assets.emulator.records.person_account import contact_fields, has_person_accounts, with_person_accounts
from sfcdc_assets.emulator.records.user_preferences import preference_fields
from sfcdc_assets.emulator.setup.channels import Channels
from sfcdc_assets.emulator.setup.field_conversion import Notice, field_conversion, is_number
from sfcdc_assets.emulator.setup.field_security import FieldSecurity

Values = Mapping[str, object] | Callable[[Mapping[str, StoredValue]], object]
"""Values of a new field: by record id, or made from each record."""
_NEVER_RETYPED = frozenset({"id", "reference", "address", "location"})
_ENCRYPTABLE = TEXTS_ENCRYPTED | {"date", "datetime"}
_SYSTEM = frozenset(
    {"Id", "IsDeleted", "CreatedDate", "CreatedById", "LastModifiedDate", "LastModifiedById", "SystemModstamp"}
)


@dataclass(frozen=True)
class TypeChange:
    """What a change of type did: how events told of it, and of how many records."""

    notice: Notice
    records: int


class Setup:
    """The administrator of one org. Raises RecordError for what cannot be done, and then has changed nothing."""

    def __init__(self, org: OrgCore, channels: Channels, field_security: FieldSecurity) -> None:
        self._org, self._channels, self._field_security = org, channels, field_security

    def add_field(
        self, entity: str, name: str, options: Mapping[str, Any], *, values: Values | None = None
    ) -> FieldDefinition:
        """Add a field in the short form of `object_file`, behind all others; events list it behind the other `__c`.

        Records that exist have nothing in it (a checkbox its default), or `values`: the org has them and no event
        tells of them. Raises ObjectDefinitionError for wrong options, RecordError for a formula of fields that there
        are not.
        """
        with self._org.database.transaction():
            definition = self._definition(entity)
            if not name.endswith("__c"):
                raise RecordError("INVALID_NAME", f"a new field's name ends with __c, which {name} does not", (name,))
            generation = self._org.field_generation(entity, name)
            added = field_definitions(entity, name, {"field_id": custom_field_id(entity, name, generation), **options})
            for field in added:
                if definition.field(field.name) is not None:
                    message = f"There is already a field named {field.name} on {entity}."
                    raise RecordError("DUPLICATE_DEVELOPER_NAME", message, (field.name,))
            if values is not None and not added[0].is_stored:
                raise RecordError("INVALID_OPERATION", f"{entity}.{name} holds no value of its own", (name,))
            chosen = self._values(definition, added[0], values)
            changed = definition.with_fields((*definition.fields, *added))
            self._check_formula(changed, added[0])
            self._org.replace_definition(changed)
            if chosen:
                self._org.store.set_values(self._org.definitions[entity], added[0], chosen)
            if added[0].roll_up is not None:
                # It is computed for every record, though nobody has changed one.
                self._org.stamp_all(entity)
            return added[0]

    def drop_field(self, entity: str, name: str) -> None:
        """Remove a custom field and its values, with the components of a compound. No event says so."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            field = self._custom(definition, name)
            gone = {field.name} | {part.name for part in definition.components.get(field.name, ())}
            for one in gone:
                self._check_unused(definition, one)
            self._org.replace_definition(
                definition.with_fields(tuple(one for one in definition.fields if one.name not in gone))
            )
            self._field_security.follow(entity, dict.fromkeys(gone))

    def rename_field(self, entity: str, name: str, new_name: str) -> None:
        """Give a custom field another API name: to clients one field is gone and another has come, with its values."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            field = self._custom(definition, name)
            # Its own name in another case is a new name, too.
            if not new_name.endswith("__c") or definition.field(new_name) not in (None, field) or new_name == name:
                raise RecordError("INVALID_NAME", f"{new_name} is no name for a field of {entity}", (new_name,))
            names = {field.name: new_name}
            for part in definition.components.get(field.name, ()):
                names[part.name] = new_name.removesuffix("__c") + part.name.removeprefix(name.removesuffix("__c"))
            for one in names:
                self._check_unused(definition, one)
            fields = tuple(
                replace(
                    one,
                    name=names.get(one.name, one.name),
                    compound_field_name=names.get(one.compound_field_name or "", one.compound_field_name),
                )
                for one in definition.fields
            )
            self._org.replace_definition(definition.with_fields(fields), names)
            self._channels.rename_fields(entity, names)
            self._field_security.follow(entity, names)

    def change_type(self, entity: str, name: str, options: Mapping[str, Any]) -> TypeChange:
        """Change a field's type, length or scale; `options` are those of a new field, names of a picklist's values are
        kept if none are given. See `field_conversion` for what becomes of values and what events tell."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            old = self._retypeable(definition, name)
            given = (
                {"values": list(old.picklist_values), **options} if "picklist" in str(options.get("type")) else options
            )
            shape = field_definitions(entity, old.name, given)[0]
            if shape.type in _NEVER_RETYPED or shape.auto_number or shape.is_formula or shape.roll_up:
                raise RecordError("INVALID_OPERATION", f"{entity}.{name} cannot become a {given.get('type')}", (name,))
            new = replace(
                shape, label=old.label, custom=old.custom, field_id=old.field_id, nillable=shape.type != "boolean"
            )
            conversion = field_conversion(old, new)
            if conversion.notice is not Notice.NONE or not is_number(new):
                self._check_unused(definition, old.name)
            before = self._org.store.values(definition, old)
            after = {record_id: conversion.convert(value) for record_id, value in before.items()}
            self._org.replace_definition(
                definition.with_fields(tuple(new if one is old else one for one in definition.fields)),
                replaced={old.name: before},
            )
            self._org.store.set_values(self._org.definitions[entity], new, after)
            records = self._announce(entity, old.name, conversion.notice, before)
            return TypeChange(conversion.notice, records)

    def rename_picklist_value(self, entity: str, name: str, old: str, new: str) -> int:
        """Rename, or replace, a value of a picklist. The records that have it get the new one, which merged events tell
        of; nobody has edited them, so LastModifiedDate stays. Returns how many there are."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            field = definition.field(name)
            if field is None or field.type not in ("picklist", "multipicklist") or old not in field.picklist_values:
                raise RecordError("INVALID_FIELD", f"{entity}.{name} is no picklist with the value {old}", (name,))
            self._check_not_mirrored(definition, field)
            values = tuple(dict.fromkeys(new if value == old else value for value in field.picklist_values))
            changed = replace(field, picklist_values=values, default=new if field.default == old else field.default)
            self._org.replace_definition(
                definition.with_fields(tuple(changed if one is field else one for one in definition.fields))
            )
            with self._org.transaction() as unit_of_work:
                for row in self._org.store.records(self._org.definitions[entity], include_deleted=False):
                    chosen = str(row[field.name] or "").split(";")
                    if old in chosen:
                        renamed = ";".join(dict.fromkeys(new if value == old else value for value in chosen))
                        unit_of_work.set_read_only(entity, str(row["Id"]), {field.name: renamed}, touch=False)
            return len(unit_of_work.committed.changes) if unit_of_work.committed else 0

    def label_picklist_value(self, entity: str, name: str, value: str, label: str) -> None:
        """Label a value of a picklist otherwise than it is called: describe says so, no record and no event does."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            field = definition.field(name)
            if field is None or value not in field.picklist_values:
                raise RecordError("INVALID_FIELD", f"{entity}.{name} is no picklist with the value {value}", (name,))
            labels = {**dict(field.picklist_labels), value: label}
            changed = replace(field, picklist_labels=tuple(labels.items()))
            self._org.replace_definition(
                definition.with_fields(tuple(changed if one is field else one for one in definition.fields))
            )

    def encrypt_field(self, entity: str, name: str) -> None:
        """Keep a text encrypted by Shield Platform Encryption. Who may read it sees no difference, in events neither
        (Change Data Capture Developer Guide, "Change Events for Encrypted Salesforce Data"); queries cannot compare it
        any more, and describe says that it is encrypted. No event says so."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            field = definition.field(name)
            if field is None or field.type not in _ENCRYPTABLE or not field.updateable or field.unique:
                raise RecordError("INVALID_OPERATION", f"{entity}.{name} cannot be encrypted", (name,))
            self._check_unused(definition, field.name)
            encrypted = replace(field, encrypted=True)
            self._org.replace_definition(
                definition.with_fields(tuple(encrypted if one is field else one for one in definition.fields))
            )

    def add_object(self, definition: ObjectDefinition, *, selected: bool = True) -> None:
        """Add an object to the running org and, if `selected`, to change data capture: its events appear on the
        channel of all, and on one of its own."""
        with self._org.database.transaction():
            if definition.name in self._org.definitions:
                raise RecordError("DUPLICATE_DEVELOPER_NAME", f"There is already an object named {definition.name}.")
            for other in self._org.definitions.values():
                if other.key_prefix == definition.key_prefix:
                    raise RecordError("INVALID_OPERATION", f"key prefix {other.key_prefix} is that of {other.name}")
            self._org.replace_definition(definition)
            if selected:
                self._org.selected_entities.append(definition.name)

    def add_user_preferences(self) -> None:
        """Give users the preferences of a real org: checkboxes in REST, and in events lists of the true ones of each
        group that a change touches (docs/salesforce-streams.md, "User preferences"). With them come the other settings
        of a user that events carry. Once is enough."""
        with self._org.database.transaction():
            definition = self._definition("User")
            if "EmailPreferencesAutoBcc" in definition.fields_by_name:
                return
            added = preference_fields()
            place = next((n for n, field in enumerate(definition.fields) if field.custom), len(definition.fields))
            fields = (*definition.fields[:place], *added, *definition.fields[place:])
            self._org.replace_definition(definition.with_fields(fields))

    def enable_person_accounts(self) -> None:
        """Let accounts be persons, as the setting of a real org does for ever; those that are there are businesses.

        Custom fields of contacts show on accounts as `__pc`, those there are now, and leads need no company: one
        without becomes a person. See `person_account`.
        """
        with self._org.database.transaction():
            account, contact = self._definition("Account"), self._definition("Contact")
            if account.record_types:
                message = "Account has record types; this org has either those or person accounts"
                raise RecordError("INVALID_OPERATION", message)
            if not has_person_accounts(account):
                for definition in with_person_accounts(account, contact):
                    self._org.replace_definition(definition)
                if (lead := self._org.definitions.get("Lead")) is not None:
                    fields = (replace(one, nillable=True) if one.name == "Company" else one for one in lead.fields)
                    self._org.replace_definition(lead.with_fields(tuple(fields)))

    def add_record_types(self, entity: str, names: Sequence[str]) -> None:
        """Give an object record types, behind those it has. With the first ones comes RecordTypeId, which is empty in
        records that exist. No event says so."""
        with self._org.database.transaction():
            definition = self._definition(entity)
            if has_person_accounts(definition):
                message = "Account has the record types of person accounts; this org has either those or others"
                raise RecordError("INVALID_OPERATION", message)
            known = [*definition.record_types, *names]
            if len({developer_name(name).lower() for name in known}) < len(known) or not all(names):
                raise RecordError("DUPLICATE_DEVELOPER_NAME", f"record types of {entity} need names of their own")
            self._org.replace_definition(with_record_types(definition, names))

    def enable_state_and_country_codes(self) -> None:
        """Give every address the codes of its state and its country, as the setting for their picklists does. They are
        fields beside the texts here: the org does not keep them in step. No event says so
        (docs/salesforce-streams.md, "Changes without an event")."""
        with self._org.database.transaction():
            for definition in tuple(self._org.definitions.values()):
                fields = tuple(one for field in definition.fields for one in (field, *_codes(definition, field)))
                if len(fields) > len(definition.fields):
                    self._org.replace_definition(definition.with_fields(fields))

    def _announce(self, entity: str, name: str, notice: Notice, before: Mapping[str, StoredValue]) -> int:
        if notice is Notice.NONE:
            return 0
        with self._org.transaction() as unit_of_work:
            if notice is Notice.WILDCARD:
                unit_of_work.clear_field(entity, name, is_retyped=True)
            else:
                unit_of_work.convert_field(entity, name, before)
        return len(unit_of_work.committed.changes) if unit_of_work.committed else 0

    def _values(
        self, definition: ObjectDefinition, field: FieldDefinition, values: Values | None
    ) -> dict[str, StoredValue]:
        if values is None:
            return {}
        records = self._org.store.records(definition, include_deleted=True)
        made = {str(row["Id"]): values(row) if callable(values) else values.get(str(row["Id"])) for row in records}
        return {record_id: stored_value(field, value) for record_id, value in made.items()}

    def _definition(self, entity: str) -> ObjectDefinition:
        if entity not in self._org.definitions:
            raise RecordError("NOT_FOUND", f"there is no object {entity}", status=404)
        return self._org.definitions[entity]

    def _custom(self, definition: ObjectDefinition, name: str) -> FieldDefinition:
        field = definition.fields_by_name.get(name)
        if field is None or not name.endswith("__c"):
            raise RecordError("INVALID_FIELD", f"{definition.name} has no custom field {name}", (name,))
        self._check_not_mirrored(definition, field)
        return field

    def _check_not_mirrored(self, definition: ObjectDefinition, field: FieldDefinition) -> None:
        """Refuse what person accounts and their contacts have in common: it would have to change on both."""
        account = self._org.definitions.get("Account")
        if account is None or not has_person_accounts(account) or definition.name not in ("Account", "Contact"):
            return
        pairs = contact_fields(account)
        if field.name in (pairs.keys() if definition is account else pairs.values()):
            message = f"{definition.name}.{field.name} is shared by person accounts and their contacts"
            raise RecordError("DEPENDENCY_EXISTS", message, (field.name,))

    def _retypeable(self, definition: ObjectDefinition, name: str) -> FieldDefinition:
        field = definition.field(name)
        if field is None:
            raise RecordError("INVALID_FIELD", f"{definition.name} has no field {name}", (name,))
        if (
            field.name in _SYSTEM
            or field.type in _NEVER_RETYPED
            or not field.is_stored
            or field.compound_field_name
            or field.roll_up
            or field.auto_number
        ):
            raise RecordError("INVALID_OPERATION", f"the type of {definition.name}.{name} cannot be changed", (name,))
        self._check_not_mirrored(definition, field)
        return field

    def _check_formula(self, definition: ObjectDefinition, field: FieldDefinition) -> None:
        if not field.is_formula:
            return
        try:
            check_formula(definition, field, {**self._org.definitions, definition.name: definition})
        except FormulaSyntaxError as error:
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", str(error), (field.name,)) from None

    def _read_by(self, definition: ObjectDefinition, field: FieldDefinition) -> set[tuple[str, str]]:
        if not field.is_formula:
            return set()
        with suppress(FormulaSyntaxError):  # of an object that the org does not have
            return set(fields_read(definition, field, self._org.definitions))
        return set()

    def _check_unused(self, definition: ObjectDefinition, name: str) -> None:
        """Formulas and roll-ups hold on to the fields they are made from."""
        for other in self._org.definitions.values():
            for field in other.fields:
                roll_up = field.roll_up
                is_summed = (
                    roll_up and roll_up.child == definition.name and name in (roll_up.field, roll_up.parent_field)
                )
                is_computed = other is definition and quoted(name) in (field.sql_expression or "")
                if is_summed or is_computed or (definition.name, name) in self._read_by(other, field):
                    message = f"{definition.name}.{name} is used by {other.name}.{field.name}"
                    raise RecordError("DEPENDENCY_EXISTS", message, (name,))


def _codes(definition: ObjectDefinition, field: FieldDefinition) -> tuple[FieldDefinition, ...]:
    """Return the codes that follow an address's country, unless it has them."""
    compound = definition.fields_by_name.get(field.compound_field_name or "")
    if compound is None or compound.type != "address" or not field.name.endswith("Country"):
        return ()
    stem = field.name.removesuffix("Country")
    names = [f"{stem}{part}Code" for part in ("State", "Country")]
    shape = replace(field, type="picklist", length=10, picklist_values=("BE", "BY", "DE", "FR"), cdc_type="StaticEnum")
    return tuple(replace(shape, name=name, label=name) for name in names if name not in definition.fields_by_name)
