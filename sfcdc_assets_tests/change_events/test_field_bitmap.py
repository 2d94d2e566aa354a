"""decode_field_bitmap: the vectors of captured payloads and public clients, and encode-decode identity."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import BitmapError, decode_field_bitmap
from sfcdc_assets.change_events.bitmap import field_bits
from sfcdc_assets.change_events.event_schema import schema_fields
from sfcdc_assets_tests.change_events.written_event import bitmap_of, event_schema, optional, record, texts

ADDRESS = record("Address", *texts("Street", "City", "Country"))
PUBLIC = event_schema(
    optional("Name", "string"),
    optional("BillingAddress", ADDRESS),
    optional("AnnualRevenue", "double"),
    optional("ShippingAddress", "Address"),
)
PLAIN_AND_ADDRESS = event_schema(
    *texts("Name", "Type"),
    optional("BillingAddress", record("Address", *texts("Street", "City", "State"))),
    optional("Phone", "string"),
)


def wide_schema() -> dict[str, Any]:
    """Field positions of a captured Account schema; only the fields the vectors name have their real names."""
    full_address = record(
        "Address",
        *texts("Street", "City", "State", "PostalCode", "Country", "StateCode", "CountryCode"),
        optional("Latitude", "double"),
        optional("Longitude", "double"),
        optional("GeocodeAccuracy", "string"),
    )
    person = record("Switchable_PersonName", *texts("Salutation", "FirstName", "LastName"))
    fields = [optional("Name", "string", person)]
    fields += texts(*(f"Field{position}" for position in range(2, 5)))
    fields += [optional("BillingAddress", full_address), optional("ShippingAddress", "Address")]
    fields += texts(*(f"Field{position}" for position in range(7, 86)))
    fields[22]["name"] = "LastModifiedDate"
    fields[67]["name"] = "Amount_Owed__c"
    return event_schema(*fields)


WIDE = wide_schema()


@pytest.mark.parametrize(
    ("bitmap", "paths"),
    [
        (["0x100000000000800000"], ["LastModifiedDate", "Amount_Owed__c"]),
        (["0x800000", "6-0x01"], ["ShippingAddress.Street", "LastModifiedDate"]),
        (["6-0x0180"], ["ShippingAddress.Latitude", "ShippingAddress.Longitude"]),
        (["0x800002"], ["Name", "LastModifiedDate"]),
        (["0x800000"], ["LastModifiedDate"]),
        (["0x0400000000000000"], ["Field58"]),
        (["0xA0060140"], ["ShippingAddress", "Field8", "Field17", "Field18", "Field29", "Field31"]),
        (["1-0x04"], ["Name.LastName"]),
        (["0x0102"], ["Name", "Field8"]),
        ([], []),
        (["0x00"], []),
    ],
)
def test_captured_bitmaps_name_the_fields_that_changed(bitmap: list[str], paths: list[str]) -> None:
    assert decode_field_bitmap(bitmap, WIDE) == paths


def test_the_documented_sample_sets_plain_bits_and_children_of_two_fields() -> None:
    layout = schema_fields(
        event_schema(
            *(
                optional(f"Field{position}", record(f"Part{position}", *texts("A", "B", "C", "D", "E")))
                for position in range(1, 31)
            )
        )
    )
    bits = field_bits(["0x650004E0", "4-0x10", "7-0x06"], layout)
    assert [position for position, child in bits if child is None] == [5, 6, 7, 10, 24, 26, 29, 30]
    assert [bit for bit in bits if bit[1] is not None] == [(4, 4), (7, 1), (7, 2)]


@pytest.mark.parametrize(
    ("bitmap", "paths"),
    [
        (["0x0A"], ["Name", "AnnualRevenue"]),
        (["2-0x05"], ["BillingAddress.Street", "BillingAddress.Country"]),
        (["4-0x02"], ["ShippingAddress.City"]),
        (["0x02", "2-0x01"], ["Name", "BillingAddress.Street"]),
        (["0x0F"], ["ChangeEventHeader", "Name", "BillingAddress", "AnnualRevenue"]),
        (["1-0x01"], []),
    ],
)
def test_the_vectors_of_public_clients_hold(bitmap: list[str], paths: list[str]) -> None:
    assert decode_field_bitmap(bitmap, PUBLIC) == paths


def test_plain_fields_around_an_address_are_named() -> None:
    assert decode_field_bitmap(["0x16"], PLAIN_AND_ADDRESS) == ["Name", "Type", "Phone"]
    assert decode_field_bitmap(["0x10"], PLAIN_AND_ADDRESS) == ["Phone"]


def test_elements_come_in_any_order_and_any_writing() -> None:
    assert decode_field_bitmap(["4-0x2", "0xA", "2-0x05"], PUBLIC) == [
        "Name",
        "BillingAddress.Street",
        "BillingAddress.Country",
        "AnnualRevenue",
        "ShippingAddress.City",
    ]
    assert decode_field_bitmap(["0x0a"], PUBLIC) == decode_field_bitmap(["0x0A"], PUBLIC)
    assert decode_field_bitmap(["0x02", "0x02"], PUBLIC) == ["Name"]


def test_the_parent_alone_stands_for_the_whole_compound_field() -> None:
    assert decode_field_bitmap(["0x04"], PUBLIC) == ["BillingAddress"]


@pytest.mark.parametrize("element", ["99-0x01", "0x20", "2-0x08", f"{10**30}-0x01", "0x" + "F" * 100])
def test_bits_beyond_the_schema_are_the_sign_of_a_wrong_schema(element: str) -> None:
    with pytest.raises(BitmapError, match="own schema id") as caught:
        decode_field_bitmap([element], PUBLIC)
    assert caught.value.element == element


@pytest.mark.parametrize("element", ["", "0x", "Name", "2-", "-0x01", "2-3-0x01", "0xG1", "0x0_1", " 0x01", "0x01\n"])
def test_what_is_not_a_bitmap_is_refused(element: str) -> None:
    with pytest.raises(BitmapError):
        decode_field_bitmap([element], PUBLIC)


def test_the_arguments_are_not_changed() -> None:
    bitmap, schema = ["4-0x02", "0x02"], copy.deepcopy(PUBLIC)
    decode_field_bitmap(bitmap, schema)
    assert bitmap == ["4-0x02", "0x02"]
    assert schema == PUBLIC


def test_a_reference_by_the_full_name_is_resolved() -> None:
    schema = event_schema(
        optional("BillingAddress", ADDRESS), optional("ShippingAddress", "com.sforce.eventbus.Address")
    )
    assert decode_field_bitmap(["2-0x02"], schema) == ["ShippingAddress.City"]


@st.composite
def schemas_and_paths(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    fields, paths, known = [], [], []
    for position in range(1, draw(st.integers(1, 40)) + 1):
        name, form = f"F{position}", draw(st.sampled_from(["plain", "compound", "reference", "switchable"]))
        if form == "plain" or (form == "reference" and not known):
            fields.append(optional(name, "string"))
            paths += [name] * draw(st.integers(0, 1))
            continue
        if form == "reference":
            compound, size = draw(st.sampled_from(known))
            fields.append(optional(name, compound))
        else:
            size = draw(st.integers(1, 12))
            compound = f"R{position}"
            known.append((compound, size))
            defined = record(compound, *texts(*(f"C{child}" for child in range(size))))
            fields.append(optional(name, *(["string"] if form == "switchable" else []), defined))
        paths += [name] * draw(st.integers(0, 1))
        paths += [f"{name}.C{child}" for child in sorted(draw(st.sets(st.integers(0, size - 1))))]
    return event_schema(*fields), paths


@given(schemas_and_paths(), st.randoms())
def test_decoding_gives_back_every_field_set_that_was_encoded(
    case: tuple[dict[str, Any], list[str]], random: Any
) -> None:
    schema, paths = case
    bitmap = bitmap_of(schema, *paths)
    random.shuffle(bitmap)
    assert decode_field_bitmap(bitmap, schema) == paths
