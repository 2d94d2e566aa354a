"""Person accounts: an account that is a person, kept in step with a contact of its own (docs/salesforce-streams.md,
"Person accounts").

A change of either side is an event of both. Changing `RecordTypeId` turns a business account with one contact into a
person account and back, which is an event of the account only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition, ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.org.transaction import StoredValue

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.dml import Dml

BUSINESS_TYPE = to_18("012A00000000001")
PERSON_TYPE = to_18("012A00000000002")
"""Record types of accounts; none counts as the business one."""
NAME_PARTS = ("Salutation", "FirstName", "LastName")
_OF_PERSONS = (
    "MailingAddress", "OtherAddress", "MobilePhone", "HomePhone", "OtherPhone", "AssistantPhone", "Email", "Title",
    "Department", "AssistantName", "LeadSource", "Birthdate", "HasOptedOutOfEmail", "DoNotCall",
)  # fmt: skip
"""Fields of contacts that accounts have as `Person...`, in the order of the account's events."""
_OF_BOTH = ("Phone", "Fax")
"""Fields of every account and every contact, which a person has once."""


def with_person_accounts(account: ObjectDefinition, contact: ObjectDefinition) -> tuple[ObjectDefinition, ...]:
    """Return both definitions in an org that has person accounts."""
    known = contact.fields_by_name
    parts = [replace(known[name], nillable=True) for name in NAME_PARTS]
    record_type = field_definition("Account", "RecordTypeId", {"type": "reference", "to": "RecordType"})
    contact_id = field_definition(
        "Account", "PersonContactId", {"type": "reference", "to": "Contact", "readonly": True}
    )
    is_person = field_definition("Account", "IsPersonAccount", {"type": "boolean", "readonly": True})
    mirrored = [contact_id]
    for name in _OF_PERSONS:
        if name in known:
            mirrored.append(replace(known[name], name=f"Person{name}"))
            mirrored += [
                replace(part, name=f"Person{part.name}", compound_field_name=f"Person{name}")
                for part in contact.components.get(name, ())
            ]
    custom = [
        replace(field, name=field.name.removesuffix("__c") + "__pc", unique=False, external_id=False)
        for field in contact.fields
        if field.name.endswith("__c") and field.is_stored and field.type != "reference"
    ]
    fields: list[FieldDefinition] = []
    for field in account.fields:
        if field.name == "Name":
            fields += [replace(field, extra_type_info="switchablepersonname"), *parts]
            continue
        fields.append(field)
        if field.name == "Type":
            fields.append(record_type)
        elif field.name == "SystemModstamp":
            fields += [*mirrored, replace(is_person, derived=True)]
    place = next((n for n, field in enumerate(contact.fields) if field.custom), len(contact.fields))
    contact_fields = (*contact.fields[:place], is_person, *contact.fields[place:])
    return account.with_fields((*fields, *custom)), contact.with_fields(contact_fields)


def has_person_accounts(account: ObjectDefinition) -> bool:
    """Return whether the org has them."""
    return account.name == "Account" and "IsPersonAccount" in account.fields_by_name


def contact_fields(account: ObjectDefinition) -> dict[str, str]:
    """Field of a person account -> the field of its contact that is always the same."""
    pairs = {name: name for name in NAME_PARTS}
    for field in account.stored_fields:
        if field.name.endswith("__pc"):
            pairs[field.name] = field.name.removesuffix("__pc") + "__c"
        elif field.name.startswith("Person") and field.name != "PersonContactId":
            pairs[field.name] = field.name.removeprefix("Person")
    return pairs


def shared_fields(account: ObjectDefinition) -> dict[str, str]:
    """Return the fields that person accounts share, with what businesses have too."""
    return {**contact_fields(account), **{name: name for name in _OF_BOTH if name in account.fields_by_name}}


def created_values(account: ObjectDefinition, values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a new account with its name and record type. Raises RecordError for a mixture of both
    kinds."""
    record_type = values.get("RecordTypeId")
    is_person = record_type[:15] == PERSON_TYPE[:15] if isinstance(record_type, str) else bool(values.get("LastName"))
    if not is_person:
        _refuse(account, (name for name in contact_fields(account) if values.get(name)))
        return {**values, "RecordTypeId": BUSINESS_TYPE}
    if "Name" in values:
        raise RecordError("INVALID_FIELD_FOR_INSERT_UPDATE", "Account: bad field names on insert/update call: Name")
    if not values.get("LastName"):
        raise RecordError("REQUIRED_FIELD_MISSING", "Required fields are missing: [LastName]", ("LastName",))
    return {**values, "Name": _full_name(values), "RecordTypeId": PERSON_TYPE}


def after_create(unit_of_work: Dml, account: ObjectDefinition, account_id: str) -> None:
    """Give a new person account its contact."""
    record = unit_of_work.live_record("Account", account_id)
    if record["RecordTypeId"] != PERSON_TYPE:
        return
    values: dict[str, object] = {
        target: record[source] for source, target in shared_fields(account).items() if record[source] is not None
    }
    contact_id = unit_of_work.create("Contact", {**values, "AccountId": account_id, "OwnerId": record["OwnerId"]})
    unit_of_work.set_read_only("Contact", contact_id, {"IsPersonAccount": True})
    unit_of_work.set_read_only("Account", account_id, {"IsPersonAccount": True, "PersonContactId": contact_id})


def after_update(
    unit_of_work: Dml, account: ObjectDefinition, entity: str, record_id: str, names: set[str], *, touch: bool
) -> None:
    """Bring the other side of a person account in step with the fields that were just set, and touch it."""
    record = unit_of_work.live_record(entity, record_id)
    pairs = contact_fields(account)
    if entity == "Account" and "RecordTypeId" in names:
        _convert(unit_of_work, pairs, record, names)
    elif entity == "Account" and not record["IsPersonAccount"]:
        _refuse(account, (name for name in names if name in pairs))
    elif record["IsPersonAccount"]:
        pairs = shared_fields(account)
        refused = {"Name"} if entity == "Account" else {"AccountId"}
        if names & refused:
            message = f"{entity}: bad field names on insert/update call: {next(iter(names & refused))}"
            raise RecordError("INVALID_FIELD_FOR_INSERT_UPDATE", message)
        own, other = ("Account", "Contact") if entity == "Account" else ("Contact", "Account")
        targets = pairs if own == "Account" else {target: source for source, target in pairs.items()}
        other_id = str(record["PersonContactId" if own == "Account" else "AccountId"])
        values = {targets[name]: record[name] for name in names if name in targets}
        if names & set(NAME_PARTS):
            full: dict[str, StoredValue] = {"Name": _full_name(record)}
            if other == "Account":
                values.update(full)
            else:
                unit_of_work.set_read_only("Account", record_id, full, touch=touch)
        if values or touch:
            unit_of_work.set_read_only(other, other_id, values, touch=touch)


def on_both(entity: str, record: Mapping[str, StoredValue], work: Callable[[str, str], None]) -> None:
    """Delete, undelete or purge the contact as well. Raises RecordError if it is the contact that was named."""
    if not record.get("IsPersonAccount"):
        return
    if entity == "Contact":
        raise RecordError("INVALID_OPERATION", "the contact of a person account goes and comes with its account")
    work("Contact", str(record["PersonContactId"]))


def _convert(unit_of_work: Dml, pairs: Mapping[str, str], record: Mapping[str, StoredValue], names: set[str]) -> None:
    becomes_person = record["RecordTypeId"] == PERSON_TYPE
    if becomes_person == record["IsPersonAccount"]:
        return
    if names - {"RecordTypeId"}:
        raise RecordError("INVALID_OPERATION", "an account changes its record type in an update of nothing else")
    account_id = str(record["Id"])
    values: dict[str, StoredValue] = {}
    if becomes_person:
        contacts = unit_of_work.referring_ids("Contact", "AccountId", account_id)
        if len(contacts) != 1:
            raise RecordError("INVALID_OPERATION", "only an account with exactly one contact can become a person")
        contact_id = contacts[0]
        contact = unit_of_work.live_record("Contact", contact_id)
        both = {name: name for name in _OF_BOTH if name in record}
        values = {source: contact[target] for source, target in {**pairs, **both}.items()}
        values |= {"Name": _full_name(contact), "PersonContactId": contact_id}
    else:
        contact_id = str(record["PersonContactId"])
        for source in pairs:
            values[source] = False if isinstance(record[source], bool) else None
        values["PersonContactId"] = None
    unit_of_work.set_read_only("Account", account_id, {**values, "IsPersonAccount": becomes_person})
    unit_of_work.set_silently("Contact", contact_id, {"IsPersonAccount": becomes_person})


def _refuse(account: ObjectDefinition, names: Iterable[str]) -> None:
    wrong = sorted(names)
    if wrong:
        message = f"{account.name}: bad field names on insert/update call: {', '.join(wrong)}"
        raise RecordError("INVALID_FIELD_FOR_INSERT_UPDATE", message, tuple(wrong))


def _full_name(values: Mapping[str, object]) -> str:
    return " ".join(str(values[name]) for name in ("FirstName", "LastName") if values.get(name))
