"""Claims: what an event carries beside its change, and that an ordinary event has none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import Column, ColumnType, EventDecoder
from sfcdc_assets_tests.change_events.test_decode import ADDRESS, BODY, COLUMNS, DECODER, NAMES, SCHEMA, updated
from sfcdc_assets_tests.change_events.written_event import header, payload

EMPTY_ADDRESS = dict.fromkeys((field["name"] for field in ADDRESS["fields"]), None)


def enriched(head: dict[str, Any], body: dict[str, Any], decoder: EventDecoder = DECODER) -> dict[str, Any]:
    decoded = decoder.decode(payload(SCHEMA, head, body))
    named = {NAMES[index]: value for index, value in decoded.enriched}
    assert len(named) == len(decoded.enriched), "a column twice"
    assert not named.keys() & {NAMES[index] for index, _ in decoded.cells}
    return named


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (updated("AnnualRevenue"), {"AnnualRevenue": 1.0}),
        (updated("AnnualRevenue", "Active", nulled=("Active",)), {"AnnualRevenue": 1.0}),
        (updated("Active", nulled=("ParentId",)), {"Active": True}),
        (updated("BillingAddress.City"), {"BillingAddress": {**EMPTY_ADDRESS, "City": "Bonn"}}),
        (updated("BillingAddress.City", nulled=("BillingAddress.City",)), {"BillingAddress": EMPTY_ADDRESS}),
        (updated("BillingAddress.City", nulled=("BillingAddress.City",)), {}),
        (updated("BillingAddress"), {"BillingAddress": BODY["BillingAddress"]}),
        (updated("Name"), {"Name": "Acme"}),
        (updated("Name"), {"Name": {"FirstName": "A", "LastName": "B"}}),
        (updated("Description", diffs=("Description",)), {"Description": "--- \n+++ \n"}),
        (updated("Prefs", "CreatedDate"), {"Prefs": [], "CreatedDate": 1}),
        (updated(), {}),
        (header("DELETE"), {}),
        (header("CREATE"), BODY),
        (header("UNDELETE"), BODY),
        (header("GAP_UPDATE"), {}),
        (header("SNAPSHOT"), BODY),
    ],
)
def test_an_event_that_is_not_enriched_carries_no_enriched_value(head: dict[str, Any], body: dict[str, Any]) -> None:
    assert enriched(head, body) == {}


def test_what_an_update_carries_beside_its_change_is_an_enriched_value_with_the_columns_type() -> None:
    assert enriched(updated("AnnualRevenue"), BODY) == {
        "Name": "Acme",
        "BillingStreet": "1 Main St",
        "BillingCity": "Köln",
        "BillingLatitude": 50.9,
        "ParentId": "001Dp00000JJkkHIAT",
        "NumberOfEmployees": 7,
        "Active": False,
        "CreatedDate": 1_689_984_000_123_000,
        "Due__c": -1,
        "At__c": "12:34:56.007",
        "Description": "long text",
        "Prefs": "A;B",
    }


def test_the_parts_that_did_not_change_of_an_address_that_did_are_enriched_values() -> None:
    body = {"BillingAddress": {"Street": "1 Main St", "City": "Bonn", "Latitude": None}}
    assert enriched(updated("BillingAddress.City"), body) == {"BillingStreet": "1 Main St"}
    assert (
        enriched(updated("BillingAddress.City", nulled=("BillingAddress.City",)), BODY)["BillingStreet"] == "1 Main St"
    )
    assert "BillingCity" not in enriched(updated(nulled=("BillingAddress.City",)), BODY)


def test_a_persons_name_is_claimed_by_its_parts() -> None:
    assert enriched(updated("Active"), {"Active": True, "Name": {"FirstName": "A", "LastName": None}}) == {
        "FirstName": "A"
    }


def test_a_delete_carries_the_last_values() -> None:
    assert enriched(header("DELETE"), {"AnnualRevenue": 1.0, "Active": False}) == {
        "AnnualRevenue": 1.0,
        "Active": False,
    }


def test_an_empty_text_is_no_enriched_value_and_neither_is_what_the_column_cannot_hold() -> None:
    columns = [
        Column("AnnualRevenue", ColumnType.INT, False, "int") if c.name == "AnnualRevenue" else c for c in COLUMNS
    ]
    decoder = EventDecoder(json.dumps(SCHEMA), columns)
    body = {"Active": True, "AnnualRevenue": 0.5, "Description": "", "NumberOfEmployees": 3}
    assert enriched(updated("Active"), body, decoder) == {"NumberOfEmployees": 3}


def test_a_field_without_a_column_carries_no_enriched_value_and_hides_no_enriched_value() -> None:
    decoder = EventDecoder(json.dumps(SCHEMA), [column for column in COLUMNS if column.name == "Active"])
    decoded = decoder.decode(payload(SCHEMA, updated("AnnualRevenue", "ParentId"), BODY))
    assert (decoded.cells, decoded.enriched) == ([], [(0, False)])


_VALUES = {name: value for name, value in BODY.items() if name != "Prefs"}


@given(changed=st.sets(st.sampled_from(sorted(_VALUES))), enriched=st.sets(st.sampled_from(sorted(_VALUES))))
def test_each_value_is_either_a_change_or_an_enriched_value(changed: set[str], enriched: set[str]) -> None:
    body = {name: _VALUES[name] for name in changed | enriched}
    decoded = DECODER.decode(payload(SCHEMA, updated(*changed), body))
    everything = dict(DECODER.decode(payload(SCHEMA, header("CREATE"), body)).cells)
    reported = {**dict(decoded.cells), **dict(decoded.enriched)}
    assert {index: value for index, value in reported.items() if value is not None} == {
        index: value for index, value in everything.items() if value is not None
    }
    assert bool(decoded.enriched) == bool(enriched - changed)
