"""The bitmaps of changed, nulled and diffed fields, against captured ones (docs/salesforce-streams.md, "Bitmaps")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.emulator.events.avro.event_schema import event_schema
from sfcdc_assets.emulator.events.avro.field_bitmap import encode_field_bitmap, field_positions

ADDRESS = ("Street", "City", "State", "PostalCode", "Country", "StateCode", "CountryCode", "Latitude", "Longitude")


def schema_with(count: int, addresses: tuple[int, ...] = (), names: dict[int, str] | None = None) -> dict:
    """A schema of `count` fields: field i is called Fi unless named, and those in `addresses` are records."""
    record = {"type": "record", "name": "Address", "fields": [{"name": n, "type": ["null", "string"]} for n in ADDRESS]}
    fields: list[dict] = [{"name": "ChangeEventHeader", "type": {"type": "record", "name": "H", "fields": []}}]
    for index in range(1, count):
        avro_type = "string" if index not in addresses else record if index == min(addresses) else "Address"
        fields.append({"name": (names or {}).get(index, f"F{index}"), "type": ["null", avro_type]})
    return {"type": "record", "name": "E", "fields": fields}


CAPTURED = field_positions(
    schema_with(
        86,
        addresses=(5, 6, 26),
        names={1: "Name", 6: "ShippingAddress", 23: "LastModifiedDate", 68: "Amount_Owed__c"},
    )
)


@pytest.mark.parametrize(
    ("paths", "bitmap"),
    [
        (["LastModifiedDate", "Amount_Owed__c"], ["0x100000000000800000"]),
        (["LastModifiedDate", "ShippingAddress.Street"], ["0x800000", "6-0x01"]),
        (["ShippingAddress.Latitude", "ShippingAddress.Longitude"], ["6-0x0180"]),
        (["Name", "LastModifiedDate"], ["0x800002"]),
        (["LastModifiedDate"], ["0x800000"]),
        (["F58"], ["0x0400000000000000"]),
        (["ShippingAddress", "F8", "F17", "F18", "F29", "F31"], ["0xA0060140"]),
        (["Name", "F8"], ["0x0102"]),
        ([], []),
    ],
)
def test_captured_bitmaps_come_out_of_their_fields(paths: list[str], bitmap: list[str]) -> None:
    assert encode_field_bitmap(paths, CAPTURED) == bitmap


def test_the_vendors_own_sample_with_two_compounds() -> None:
    positions = field_positions(schema_with(40, addresses=(4, 7)))
    paths = ["F30", "F29", "F26", "F24", "F10", "F5", "F6", "F7", "F4.Country", "F7.City", "F7.State"]
    assert encode_field_bitmap(paths, positions) == ["0x650004E0", "4-0x10", "7-0x06"]


def test_public_vectors_of_a_small_schema() -> None:
    positions = field_positions(schema_with(5, addresses=(2, 4)))
    assert encode_field_bitmap(["F1", "F3"], positions) == ["0x0A"]
    assert encode_field_bitmap(["F2.Street", "F2.State"], positions) == ["2-0x05"]
    assert encode_field_bitmap(["F4.City"], positions) == ["4-0x02"]
    assert encode_field_bitmap(["F2.Street", "F1"], positions) == ["0x02", "2-0x01"]


def test_only_children_changed_leaves_the_parents_own_bit_clear() -> None:
    assert not any("-" not in element for element in encode_field_bitmap(["ShippingAddress.City"], CAPTURED))


def test_a_path_outside_the_schema_is_an_error() -> None:
    with pytest.raises(KeyError):
        encode_field_bitmap(["Nowhere"], CAPTURED)


def decode_plainly(bitmap: list[str], schema: dict) -> set[str]:
    """Decoding by the letter of the documented algorithm, with none of the encoder's code."""
    records = {
        branch["name"]: branch["fields"]
        for field in schema["fields"]
        for branch in (field["type"] if isinstance(field["type"], list) else [])
        if isinstance(branch, dict)
    }
    found = set()
    for element in bitmap:
        parent, _, digits = element.rpartition("-")
        bits = [i for i in range(4 * len(digits)) if int(digits, 16) >> i & 1]
        if not parent:
            found |= {schema["fields"][bit]["name"] for bit in bits}
            continue
        field = schema["fields"][int(parent)]
        branch = next(b for b in field["type"] if b != "null")
        children = records[branch if isinstance(branch, str) else branch["name"]]
        found |= {f"{field['name']}.{children[bit]['name']}" for bit in bits}
    return found


SCHEMAS = [event_schema(definition) for definition in built_in_definitions()]


@given(st.data())
def test_any_set_of_fields_decodes_to_itself_in_the_fewest_whole_bytes(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(SCHEMAS))
    positions = field_positions(schema)
    paths = data.draw(st.sets(st.sampled_from(sorted(positions))))
    bitmap = encode_field_bitmap(paths, positions)
    assert decode_plainly(bitmap, schema) == paths
    for element in bitmap:
        digits = element.rpartition("-")[2].removeprefix("0x")
        assert len(digits) % 2 == 0
        assert digits == digits.upper()
        assert not digits.startswith("00")
