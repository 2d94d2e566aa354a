"""What a describe says becomes rows, whatever it leaves out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.salesforce.object_shape import FIELDS, PICKLIST_VALUES, SHAPE_TABLES, ObjectShape

INDUSTRY: dict[str, Any] = {
    "name": "Industry",
    "label": "Industry",
    "type": "picklist",
    "length": 255,
    "inlineHelpText": "What they do",
    "referenceTo": [],
    "defaultValue": None,
    "picklistValues": [
        {"value": "Energy", "label": "Energie", "active": True, "defaultValue": False, "validFor": "gAAA"},
        {"value": "Media", "label": "Medien", "active": False, "defaultValue": True, "validFor": None},
    ],
}
ACCOUNT: dict[str, Any] = {
    "name": "Account",
    "labelPlural": "Accounts",
    "keyPrefix": "001",
    "replicateable": True,
    "fields": [INDUSTRY, {"name": "Active__c", "type": "boolean", "defaultValue": False}],
    "childRelationships": [
        {"childSObject": "Contact", "field": "AccountId", "relationshipName": "Contacts", "cascadeDelete": True}
    ],
    "recordTypeInfos": [
        {"recordTypeId": "012000000000000AAA", "name": "Master", "developerName": "Master", "master": True}
    ],
}


def test_attributes_are_columns_in_snake_case() -> None:
    rows = ObjectShape.from_describe(ACCOUNT).rows
    (account,) = rows["objects"]
    assert (account["entity_name"], account["label_plural"], account["key_prefix"]) == ("Account", "Accounts", "001")
    assert account["replicateable"] is True
    industry, active = rows["fields"]
    assert (industry["name"], industry["inline_help_text"], industry["length"]) == ("Industry", "What they do", 255)
    assert active["default_value"] == "false", "a default of any type is a text"
    (contacts,) = rows["relationships"]
    assert (contacts["child_sobject"], contacts["relationship_name"]) == ("Contact", "Contacts")
    (master,) = rows["record_types"]
    assert (master["record_type_id"], master["developer_name"], master["active"]) == (
        "012000000000000AAA",
        "Master",
        None,
    )


def test_values_of_a_picklist_keep_their_order_labels_and_what_they_depend_on() -> None:
    energy, media = ObjectShape.from_describe(ACCOUNT).rows["picklist_values"]
    assert (energy["field"], energy["sort_order"], energy["value"], energy["label"]) == (
        "Industry",
        1,
        "Energy",
        "Energie",
    )
    assert (energy["valid_for"], media["sort_order"], media["active"]) == ("gAAA", 2, False)


def test_a_key_that_is_there_twice_is_one_row_and_one_that_is_missing_none() -> None:
    twice = {**INDUSTRY, "picklistValues": [*INDUSTRY["picklistValues"], {"value": "Energy"}, {"label": "no value"}]}
    rows = ObjectShape.from_describe({"name": "Account", "fields": [twice, twice, {"name": "no name!"}, {}]}).rows
    assert [row["value"] for row in rows["picklist_values"]] == ["Energy", "Media"]
    assert [row["name"] for row in rows["fields"]] == ["Industry"]
    assert rows["relationships"] == rows["record_types"] == ()


def test_a_fingerprint_is_of_one_table() -> None:
    relabelled = {**INDUSTRY, "picklistValues": [{**INDUSTRY["picklistValues"][0], "label": "Strom"}]}
    before = ObjectShape.from_describe(ACCOUNT)
    after = ObjectShape.from_describe({**ACCOUNT, "fields": [relabelled, *ACCOUNT["fields"][1:]]})
    assert before.fingerprint(FIELDS) == after.fingerprint(FIELDS)
    assert before.fingerprint(PICKLIST_VALUES) != after.fingerprint(PICKLIST_VALUES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ATTRIBUTES = ["name", "label", "fields", "picklistValues", "value", "recordTypeInfos", "recordTypeId", "referenceTo"]
ODD = st.dictionaries(st.sampled_from(ATTRIBUTES), JSON | st.lists(st.dictionaries(st.sampled_from(ATTRIBUTES), JSON)))


@given(ODD)
def test_whatever_a_describe_says_fits_the_columns(odd: dict[str, Any]) -> None:
    shape = ObjectShape.from_describe({**odd, "name": "X__c", "fields": [{**INDUSTRY, **odd, "name": "Y__c"}]})
    for table in SHAPE_TABLES:
        rows = [dict(row) for row in shape.rows[table.name]]
        assert pa.Table.from_pylist(rows, schema=table.schema).num_rows == len(rows)
        assert 0 <= shape.fingerprint(table) < 2**56
