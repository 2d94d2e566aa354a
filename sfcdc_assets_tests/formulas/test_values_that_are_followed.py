"""Formula values that are read again only for what dependencies say are the emulated org's, after any changes."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import pytest

from sfcdc_assets.emulator.definitions.object_definition import FieldDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.sample_values import sample_value
from sfcdc_assets.emulator.org.transaction import UPDATE, StoredValue, Transaction
from sfcdc_assets.emulator.rest.describe import field_json
from sfcdc_assets.formulas.affected_records import affected_records
from sfcdc_assets.formulas.dependencies import FormulaDependencies, dependencies_of_all
from sfcdc_assets.salesforce.object_description import ObjectDescription

NOW = 1_738_584_000_000  # 2025-02-03T12:00:00Z
FORMULAS = {
    "Account": {
        "Full_Name__c": ("string", "Name & ' (' & TEXT(Rating) & BLANKVALUE(', ' & Parent.Name, '') & ')'"),
        "Grade__c": ("double", "CASE(Rating, 'Hot', 3, 'Warm', 2, 1) + Parent.Health_Score__c"),
    },
    "Opportunity": {
        "Weighted__c": ("currency", "Amount * Probability"),
        "Of_Accounts__c": ("string", "Account.Full_Name__c & ' / ' & Account.Parent.Parent.Name & Account.Site"),
        "Graded__c": ("double", "Weighted__c + Account.Grade__c * Account.Parent.Grade__c"),
        "Of_People__c": ("string", "Owner.LastName & Account.Owner.Department & Account.Primary_Contact__r.Email"),
        "Share__c": ("percent", "IF(Account.Pipeline__c = 0, 0, Amount / Account.Pipeline__c)"),
        "Is_Late__c": ("boolean", "CloseDate < DATE(2025, 6, 1) && NOT(IsClosed)"),
    },
    "Contact": {"Reports__c": ("string", "ReportsTo.ReportsTo.Name & UPPER(Account.Owner.Username) & MailingCity")},
}
CHANGED = ("Account", "Account", "Opportunity", "Contact", "User")
Values = dict[str, dict[str, StoredValue]]


class Copy:
    """The formula values of an org as one read them who notices every change, and no more."""

    def __init__(self, org: EmulatedOrg) -> None:
        self.org = org
        described = {
            name: ObjectDescription.from_json({"name": name, "fields": [field_json(each) for each in found.fields]})
            for name, found in org.definitions.items()
        }
        self.formulas = {
            entity: FormulaDependencies().together(dependencies_of_all(described[entity], described.get).values())
            for entity in FORMULAS
        }
        self.values: dict[str, Values] = {entity: now(org, entity) for entity in FORMULAS}
        self.reads = 0

    def follow(self, transaction: Transaction) -> None:
        changed: dict[str, dict[str, frozenset[str] | None]] = {}
        for each in transaction.changes:
            fields = frozenset(each.changed_fields) if each.change_type == UPDATE else None
            before = changed.setdefault(each.entity, {}).get(each.record_id, frozenset())
            changed[each.entity][each.record_id] = None if fields is None or before is None else fields | before
        for entity, formulas in self.formulas.items():
            due = affected_records(entity, formulas, changed, self._referring)
            for record_id in {*due, *changed.get(entity, {})}:
                self.reads += 1
                self.values[entity].pop(record_id, None)
                record = self.org.record(entity, record_id)
                if record is not None and not record["IsDeleted"]:
                    self.values[entity][record_id] = {name: record[name] for name in FORMULAS[entity]}

    def _referring(self, entity: str, lookup: str, ids: Collection[str]) -> list[str]:
        return [str(row["Id"]) for row in self.org.records(entity) if row[lookup] in ids]


def now(org: EmulatedOrg, entity: str) -> Values:
    return {str(row["Id"]): {name: row[name] for name in FORMULAS[entity]} for row in org.records(entity)}


def changeable(org: EmulatedOrg, entity: str) -> list[FieldDefinition]:
    stored = (each for each in org.definitions[entity].stored_fields if each.updateable and not each.unique)
    return [each for each in stored if each.name != "IsActive" and set(each.reference_to) <= org.definitions.keys()]


def change(org: EmulatedOrg, dice: Random) -> None:
    """One transaction of one to three changes; what the org refuses is not done."""
    with org.transaction() as work:
        for _ in range(dice.randint(1, 3)):
            entity = dice.choice(CHANGED)
            records = list(org.records(entity, include_deleted=entity != "User"))
            record = dice.choice(records)
            try:
                if record.get("IsDeleted"):
                    work.undelete(entity, str(record["Id"]))
                elif entity != "User" and dice.random() < 0.1:
                    work.delete(entity, str(record["Id"]))
                else:
                    work.update(entity, str(record["Id"]), some_values(org, entity, dice))
            except RecordError:
                continue


def some_values(org: EmulatedOrg, entity: str, dice: Random) -> dict[str, StoredValue]:
    fields = changeable(org, entity)
    values: dict[str, StoredValue] = {}
    for field in dice.sample(fields, min(5, len(fields))):
        if field.type == "reference":
            parents = [str(row["Id"]) for name in field.reference_to for row in org.records(name)]
            values[field.name] = dice.choice([None, *parents]) if field.nillable else dice.choice(parents)
        else:
            is_null = field.nillable and dice.random() < 0.2
            values[field.name] = None if is_null else sample_value(field, dice, now=NOW)
    return values


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_again_is_all_that_changed(seed: int) -> None:
    org, dice = EmulatedOrg(clock=ManualClock(NOW), seed=seed), Random(seed)
    org.populate({"Account": 8, "Contact": 8, "Opportunity": 10, "User": 3})
    for entity, formulas in FORMULAS.items():
        for name, (kind, text) in formulas.items():
            org.setup.add_field(entity, name, {"type": kind, "formula": text})
    copy = Copy(org)
    assert not any(each.unseen or each.names_time for each in copy.formulas.values())
    first = copy.values["Opportunity"].copy()
    transactions = 0
    for _ in range(40):
        last = org.last_commit_number
        change(org, dice)
        for transaction in org.transactions(after=last):
            transactions += 1
            copy.follow(transaction)
        for entity in FORMULAS:
            assert copy.values[entity] == now(org, entity)
    assert transactions > 25
    assert copy.values["Opportunity"] != first
    assert copy.reads < transactions * 26 / 3
