"""What formula fields are computed from, by descriptions, against the emulated org's own resolution."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.emulator.formulas.formula_field import fields_read
from sfcdc_assets.emulator.rest.describe import field_json
from sfcdc_assets.formulas.dependencies import (
    FormulaDependencies,
    Lookup,
    ParentFields,
    dependencies_of_all,
    formula_fields,
)
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets_tests.formulas.generated import Generated, formulas


def field(name: str, kind: str = "string", **facts: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **facts}


def lookup(name: str, relationship: str, *targets: str) -> dict[str, Any]:
    return field(name, "reference", relationshipName=relationship, referenceTo=list(targets))


def formula(name: str, text: str | None) -> dict[str, Any]:
    return field(name, calculated=True, calculatedFormula=text)


def org_of(**objects: list[dict[str, Any]]) -> dict[str, ObjectDescription]:
    return {name: ObjectDescription.from_json({"name": name, "fields": fields}) for name, fields in objects.items()}


ORG = org_of(
    Deal=[
        field("Id", "id"),
        field("Amount", "currency"),
        field("Stage", "picklist"),
        lookup("AccountId", "Account", "Account"),
        lookup("OwnerId", "Owner", "Group", "User"),
        lookup("Gone__c", "Gone__r", "Gone__c"),
        formula("Plain__c", "amount * 2 + IF(ISPICKVAL(STAGE, 'Account.Name'), 1, 0)"),
        formula("Of_Parent__c", "Account.Name & Account.Owner.Email"),
        formula("Of_Formula__c", "Plain__c + Account.Size__c"),
        formula("Of_Owner__c", "Owner.Name"),
        formula("Of_User__c", "Owner:User.Name"),
        formula("Daily__c", "TODAY() - 1"),
        formula("Daily_Of_Parent__c", "Account.Age__c"),
        formula("Of_Whoever__c", "$User.Id = OwnerId"),
        formula("Of_Hidden__c", "Hidden__c + Account.Hidden__c"),
        formula("Of_Gone__c", "Gone__r.Name"),
        formula("Of_Other_Rows__c", "VLOOKUP(Amount, Amount, Stage)"),
        formula("Unreadable__c", "Amount ? 1"),
        formula("Round__c", "Round__c + 1"),
        formula("Of_Roll_Up__c", "Account.Pipeline__c"),
        formula("Of_Person__c", "Account.Person.Name"),
    ],
    Account=[
        field("Name"),
        field("Staff", "int"),
        field("Born__c", "date"),
        lookup("OwnerId", "Owner", "User"),
        lookup("PersonId", "Person", "Person"),
        formula("Size__c", "Staff / Owner.Most__c"),
        formula("Age__c", "NOW() - Born__c"),
        field("Pipeline__c", "currency", calculated=True),
    ],
    User=[field("Name"), field("Email"), field("Most__c", "double")],
    Group=[field("Name")],
    Person=[
        field("Name", extraTypeInfo="personname"),
        field("FirstName", compoundFieldName="Name"),
        field("LastName", compoundFieldName="Name"),
    ],
)


def of(name: str) -> FormulaDependencies:
    return dependencies_of_all(ORG["Deal"], ORG.get)[name]


def parent(path: str, *fields: str) -> ParentFields:
    """`AccountId>Account.OwnerId>User`: the lookups with the objects that they lead to."""
    steps = [Lookup(*step.split(">")) for step in path.split(".")]
    return ParentFields(tuple(steps), frozenset(fields))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Plain__c", FormulaDependencies(frozenset({"Amount", "Stage"}))),
        (
            "Of_Parent__c",
            FormulaDependencies(
                frozenset({"AccountId"}),
                (parent("AccountId>Account", "Name", "OwnerId"), parent("AccountId>Account.OwnerId>User", "Email")),
            ),
        ),
        (
            "Of_Formula__c",
            FormulaDependencies(
                frozenset({"Amount", "Stage", "AccountId"}),
                (parent("AccountId>Account", "Staff", "OwnerId"), parent("AccountId>Account.OwnerId>User", "Most__c")),
            ),
        ),
        (
            "Of_Owner__c",
            FormulaDependencies(
                frozenset({"OwnerId"}), (parent("OwnerId>Group", "Name"), parent("OwnerId>User", "Name"))
            ),
        ),
        ("Of_User__c", FormulaDependencies(frozenset({"OwnerId"}), (parent("OwnerId>User", "Name"),))),
        ("Daily__c", FormulaDependencies(names_time=True)),
        (
            "Daily_Of_Parent__c",
            FormulaDependencies(frozenset({"AccountId"}), (parent("AccountId>Account", "Born__c"),), names_time=True),
        ),
        (
            "Of_Roll_Up__c",
            FormulaDependencies(frozenset({"AccountId"}), (parent("AccountId>Account", "Pipeline__c"),)),
        ),
        (
            "Of_Person__c",
            FormulaDependencies(
                frozenset({"AccountId"}),
                (
                    parent("AccountId>Account", "PersonId"),
                    parent("AccountId>Account.PersonId>Person", "Name", "FirstName", "LastName"),
                ),
            ),
        ),
    ],
)
def test_a_formula_is_computed_from_these(name, expected):
    assert of(name) == expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Of_Whoever__c", "Deal.Of_Whoever__c names $user.id"),
        ("Of_Hidden__c", "Deal.Of_Hidden__c names hidden__c, and Account is not described with it"),
        ("Of_Gone__c", "Deal.Of_Gone__c names gone__r.name, and Gone__c is not described"),
        ("Of_Other_Rows__c", "Deal.Of_Other_Rows__c names VLOOKUP()"),
        ("Unreadable__c", "the formula of Deal.Unreadable__c cannot be read"),
        ("Round__c", "Deal.Round__c is computed from itself, or over too many formulas"),
    ],
)
def test_what_cannot_be_followed_may_change_unseen(name, reason):
    assert reason in of(name).unseen


def test_all_formulas_of_an_object_are_found_and_roll_ups_are_none():
    assert [each.name for each in formula_fields(ORG["Account"])] == ["Size__c", "Age__c"]
    found = dependencies_of_all(ORG["Account"], ORG.get)
    assert list(found) == ["Size__c", "Age__c"]
    assert found["Age__c"].names_time


def test_a_description_keeps_a_formulas_text_and_one_without_is_as_before():
    described = ORG["Account"].to_json()
    assert ObjectDescription.from_json(described) == ORG["Account"]
    assert "calculatedFormula" not in described["fields"][0]


DEFINITIONS = {definition.name: definition for definition in built_in_definitions()}
NAMES = (
    "Name", "Amount", "StageName", "Account.Name", "Account.Owner.Email", "Account.Parent.Parent.Rating",
    "Owner.Username", "CreatedBy.Name", "Account.Revenue_Per_Employee__c", "Account.Primary_Contact__r.FirstName",
    "Account.Pipeline__c", "CloseDate",
)  # fmt: skip


def described(definition: ObjectDefinition) -> ObjectDescription:
    fields = [field_json(each) for each in definition.fields]
    return ObjectDescription.from_json({"name": definition.name, "fields": fields})


DESCRIBED = {name: described(definition) for name, definition in DEFINITIONS.items()}


@given(formulas(NAMES))
def test_the_emulated_org_reads_the_same_fields_for_a_formula(generated: Generated):
    definition = DEFINITIONS["Opportunity"]
    added = field_definition("Opportunity", "New__c", {"type": "string", "formula": generated.text})
    with_formula = definition.with_fields((*definition.fields, added))
    read = set(fields_read(with_formula, added, DEFINITIONS))
    found = dependencies_of_all(described(with_formula), DESCRIBED.get)["New__c"]
    parts_of_names = {("User", "FirstName"), ("User", "LastName"), ("User", "Salutation")}
    assert found.reads("Opportunity") - parts_of_names == read - {("Account", "Revenue_Per_Employee__c")}
    assert not found.unseen
    assert found.names_time == bool(generated.functions & {"today", "now"})
