"""What an object of the org looks like: the facts that describe, the store, SOQL and the event schemas all read.

Definitions are values: replace one (`Org.replace_definition`) to add, drop, rename or retype a field while the org
runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from sfcdc_assets.emulator.definitions.object_access import USUAL, Companion, CompanionKind, ObjectAccess


class DeleteConstraint(StrEnum):
    """What a delete does to the records that refer to the deleted one (Metadata API, CustomField.deleteConstraint)."""

    SET_NULL = "SetNull"
    """The reference is cleared."""
    RESTRICT = "Restrict"
    """The delete is refused."""
    CASCADE = "Cascade"
    """They are deleted too."""


_STAMPS = ("SystemModstamp", "LastModifiedDate", "CreatedDate", "LoginTime")
NEVER_IN_EVENTS = frozenset({"Id", "IsDeleted", "SystemModstamp"})
"""Fields of the record that no change event carries (docs/salesforce-streams.md, "Change event schema")."""


@dataclass(frozen=True)
class RollUp:
    """A roll-up summary: `operation` (SUM or COUNT) of `field` over live `child` records whose `parent_field`
    names the record."""

    child: str
    parent_field: str
    operation: str
    field: str | None = None


TEXTS_ENCRYPTED = frozenset({"string", "textarea", "phone", "email", "url"})
"""Types of texts that can be encrypted."""
MASK = "?????"
"""What is shown of a value whose key is destroyed."""


@dataclass(frozen=True)
class FieldDefinition:
    """One field. The names are those of describe, in snake case; types are describe's (string, picklist, address
    ...)."""

    name: str
    label: str
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    nillable: bool = True
    createable: bool = True
    updateable: bool = True
    custom: bool = False
    unique: bool = False
    external_id: bool = False
    calculated: bool = False
    calculated_formula: str | None = None
    """In Salesforce's formula language; the value is computed when the record is read (emulator/formulas)."""
    blank_is_zero: bool = True
    """Of a formula: blank numbers count as zero; otherwise they make what is computed from them blank."""
    derived: bool = False
    """Filled in by the org from other data (LastActivityDate, IsWon); not in change events."""
    sql_expression: str | None = None
    """How the emulated org computes the value from the record's other fields: an SQLite expression."""
    roll_up: RollUp | None = None
    auto_number: str | None = None
    """Display format such as `INV-{00000}`."""
    default: str | bool | int | float | None = None
    picklist_values: tuple[str, ...] = ()
    picklist_labels: tuple[tuple[str, str], ...] = ()
    """Value and label, of the values that are labelled otherwise than they are called."""
    restricted_picklist: bool = False
    reference_to: tuple[str, ...] = ()
    relationship_name: str | None = None
    child_relationship_name: str | None = None
    """How the parent knows the records that refer to it, where that is not their plural."""
    compound_field_name: str | None = None
    extra_type_info: str | None = None
    field_id: str | None = None
    """15 characters, `00N...`; custom fields only."""
    cdc_type: str | None = None
    """Overrides the type in the event schema's `doc`, e.g. `StaticEnum`."""
    bit_group: str | None = None
    """Of a preference: its group of at most 32, named by the field of the events that lists the true ones, and a number
    if that field has several groups (`UserPreferences`, `UserPreferences2`)."""
    delete_constraint: DeleteConstraint = DeleteConstraint.SET_NULL
    """Of a reference."""
    is_master_detail: bool = False
    """Of a reference: it is to the master of the record."""
    encrypted: bool = False
    """Kept encrypted by Shield Platform Encryption: values are as ever, but no query can compare them."""
    readable_from: int = 0
    """Of an encrypted text: values of records that were last saved before this time (epoch ms) read as `MASK`, because
    the key is destroyed that they were encrypted with."""

    filterable: bool = True
    """False: no query can compare it, though its type could be."""
    sortable: bool = True
    """False: no query can be ordered by it."""

    @property
    def bit_list(self) -> str:
        """Of a preference: the field of the events that lists the true ones."""
        return (self.bit_group or "").rstrip("0123456789")

    @property
    def is_compound(self) -> bool:
        """Whether the field is made of other fields that point to it by `compound_field_name`."""
        return self.type in {"address", "location"} or self.extra_type_info == "personname"

    @property
    def is_stored(self) -> bool:
        """Whether the field holds a value of its own (compounds and computed fields do not)."""
        return not self.is_compound and self.sql_expression is None and not self.is_formula

    @property
    def is_formula(self) -> bool:
        """Whether the field is computed from others, of its record or of its parents, when it is read."""
        return self.calculated and self.roll_up is None

    @property
    def in_change_events(self) -> bool:
        """False for Id, IsDeleted, SystemModstamp, files, formula and derived fields; roll-up summaries are in
        (docs/salesforce-streams.md, "Change event schema")."""
        is_carried = self.name not in NEVER_IN_EVENTS and self.type != "base64"
        return is_carried and not self.derived and not self.is_formula


@dataclass(frozen=True)
class ObjectDefinition:
    """One object. The order of `fields` is the fixed order of its change events: standard fields, then custom ones."""

    name: str
    label: str
    key_prefix: str
    fields: tuple[FieldDefinition, ...]
    label_plural: str = ""
    custom: bool = False
    deletable: bool = True
    """Users cannot be deleted and have no IsDeleted."""
    name_field: str | None = "Name"
    record_types: tuple[str, ...] = ()
    """Names of its record types, the default first; person accounts have some without being named here."""
    access: ObjectAccess = USUAL
    companion: Companion | None = None
    """Whose records its own records tell of: history, share, feed."""
    tracked: tuple[str, ...] = ()
    """Fields whose changes go into its history, at most 20."""

    @property
    def is_custom_setup(self) -> bool:
        """Whether it is a custom metadata type, an external or a big object."""
        return self.name.endswith(("__mdt", "__x", "__b"))

    @property
    def is_written(self) -> bool:
        """Whether clients create, update and delete its records."""
        return self.access.writable and self.companion is None

    @property
    def is_undeletable(self) -> bool:
        """Whether its deleted records wait in the recycle bin, so that IsDeleted means something."""
        return self.deletable and self.is_written and not self.access.purged_on_delete

    @property
    def is_replicateable(self) -> bool:
        """Whether `updated` and `deleted` list its records."""
        return self.access.replicateable and self.stamp is not None

    @property
    def has_change_events(self) -> bool:
        """Whether change data capture can be enabled for it."""
        return self.access.events and self.companion is None and not self.is_custom_setup

    @cached_property
    def stamp(self) -> str | None:
        """The best field that says when a record changed, or came; None if it has none."""
        return next((name for name in _STAMPS if name in self.fields_by_name), None)

    @cached_property
    def fields_by_name(self) -> Mapping[str, FieldDefinition]:
        """The fields by their API names."""
        return {field.name: field for field in self.fields}

    @cached_property
    def _fields_by_lower_name(self) -> Mapping[str, FieldDefinition]:
        return {field.name.lower(): field for field in self.fields}

    @cached_property
    def stored_fields(self) -> tuple[FieldDefinition, ...]:
        """The fields that hold values: what `RecordChange.before` and `.after` contain, `Id` first."""
        return tuple(field for field in self.fields if field.is_stored)

    @cached_property
    def references(self) -> tuple[FieldDefinition, ...]:
        """The fields that name records of other objects."""
        return tuple(field for field in self.fields if field.reference_to)

    @cached_property
    def foreign_keys(self) -> tuple[FieldDefinition, ...]:
        """The references that deletes concern: not those to users, whom nobody can delete, nor what the org derives."""
        return tuple(
            field
            for field in self.stored_fields
            if field.type == "reference" and field.reference_to != ("User",) and not field.derived
        )

    @cached_property
    def event_field_names(self) -> tuple[str, ...]:
        """The stored fields that change events carry."""
        return tuple(field.name for field in self.stored_fields if field.in_change_events)

    @cached_property
    def components(self) -> Mapping[str, tuple[FieldDefinition, ...]]:
        """Compound field name -> its component fields in order; Account.Name and other plain texts are not here."""
        return {
            field.name: tuple(part for part in self.fields if part.compound_field_name == field.name)
            for field in self.fields
            if field.is_compound
        }

    def field(self, name: str) -> FieldDefinition | None:
        """Return the field of that API name, whatever the case of its letters (as the REST API does); None if there is
        none."""
        return self.fields_by_name.get(name) or self._fields_by_lower_name.get(name.lower())

    def with_fields(self, fields: tuple[FieldDefinition, ...]) -> ObjectDefinition:
        """Return the same object with other fields."""
        return replace(self, fields=fields)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form that `from_json` reads back to an equal definition."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            **own,
            "fields": [_field_to_json(field) for field in self.fields],
            "access": asdict(self.access),
            "companion": self.companion and asdict(self.companion),
        }

    @cached_property
    def json_text(self) -> str:
        """`to_json` written down; kept, because each new org writes the same built-in definitions."""
        return json.dumps(self.to_json())

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ObjectDefinition:
        """Return the inverse of `to_json`."""
        known = tuple(_field_from_json(item) for item in document["fields"])
        companion = document.get("companion")
        return cls(
            **{
                **document,
                "fields": known,
                "record_types": tuple(document.get("record_types", ())),
                "access": ObjectAccess.from_json(document.get("access", {})),
                "companion": companion and Companion(**{**companion, "kind": CompanionKind(companion["kind"])}),
                "tracked": tuple(document.get("tracked", ())),
            }
        )


def _field_to_json(field: FieldDefinition) -> dict[str, Any]:
    # dataclasses.asdict copies deeply, which takes seconds where there are hundreds of objects.
    own = {each.name: getattr(field, each.name) for each in fields(field)}
    return {**own, "roll_up": field.roll_up and asdict(field.roll_up)}


def _field_from_json(document: Mapping[str, Any]) -> FieldDefinition:
    roll_up = document["roll_up"]
    constraint = document.get("delete_constraint", DeleteConstraint.SET_NULL)
    if document.get("cascade_delete"):  # of an org that was made by an earlier version
        constraint = DeleteConstraint.CASCADE
    return FieldDefinition(
        **{
            **{name: value for name, value in document.items() if name != "cascade_delete"},
            "delete_constraint": DeleteConstraint(constraint),
            "picklist_values": tuple(document["picklist_values"]),
            "picklist_labels": tuple((value, label) for value, label in document.get("picklist_labels", ())),
            "reference_to": tuple(document["reference_to"]),
            # An org that was made by an earlier version computes formulas in its tables.
            "sql_expression": None if document["calculated_formula"] else document["sql_expression"],
            "roll_up": RollUp(**roll_up) if roll_up else None,
        }
    )
