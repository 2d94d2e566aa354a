"""Columns of formula values, which formulas are withheld, and when all values are to be read again."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from sfcdc_assets.change_events.columns import columns_of_arrow_schema
from sfcdc_assets.formulas.formula_columns import (
    AS_OF,
    fingerprint,
    formula_columns,
    formulas_withheld,
    row_schema,
)
from sfcdc_assets.salesforce.object_description import ObjectDescription


def formula(name: str, kind: str, text: str) -> dict[str, object]:
    return {"name": name, "type": kind, "calculated": True, "calculatedFormula": text}


CONTACT = ObjectDescription.from_json(
    {
        "name": "Contact",
        "fields": [
            {"name": "Id", "type": "id"},
            {"name": "Email", "type": "email"},
            {"name": "AccountId", "type": "reference", "relationshipName": "Account", "referenceTo": ["Account"]},
            {"name": "Deals__c", "type": "double", "calculated": True},
            formula("Text__c", "string", "Email & '!'"),
            formula("Of_Text__c", "boolean", "ISBLANK(Text__c)"),
            formula("Number__c", "currency", "Account.Size__c"),
            formula("Day__c", "date", "TODAY()"),
            formula("At__c", "datetime", "NOW()"),
        ],
    }
)
ACCOUNT = ObjectDescription.from_json({"name": "Account", "fields": [{"name": "Size__c", "type": "double"}]})
DESCRIBE = {"Contact": CONTACT, "Account": ACCOUNT}.get


def test_a_formula_has_the_type_of_a_field_of_its_kind():
    schema = row_schema(formula_columns(CONTACT))
    moment = pa.timestamp("us", "UTC")
    assert dict(zip(schema.names, schema.types, strict=True)) == {
        "Id": pa.string(), "Text__c": pa.string(), "Of_Text__c": pa.bool_(), "Number__c": pa.float64(),
        "Day__c": pa.date32(), "At__c": moment, AS_OF: moment,
    }  # fmt: skip
    assert columns_of_arrow_schema(schema) == formula_columns(CONTACT)


def test_a_formula_of_a_field_that_is_withheld_is_withheld_too():
    hidden = {("Contact", "Email"), ("Account", "Size__c")}
    found = formulas_withheld(CONTACT, DESCRIBE, lambda entity, field: (entity, field) in hidden)
    assert found == {
        "Text__c": "it shows Contact.Email",
        "Of_Text__c": "it shows Contact.Email",
        "Number__c": "it shows Account.Size__c",
    }
    assert formulas_withheld(CONTACT, DESCRIBE, lambda _entity, _field: False) == {}


def test_another_text_is_another_fingerprint_and_another_order_is_none():
    known = fingerprint(CONTACT)
    assert 0 <= known < 2**63
    assert fingerprint(replace(CONTACT, fields=tuple(reversed(CONTACT.fields)), label="Person")) == known
    changed = tuple(replace(each, calculated_formula="1") if each.name == "Day__c" else each for each in CONTACT.fields)
    assert fingerprint(replace(CONTACT, fields=changed)) != known
