"""Every type and shape of field, from a REST value to the tables by each way there is: the snapshot, a create, an
update, an undelete, and reading back. All of them must end in the very value that REST gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.explain.explain import explain_record
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline
from sfcdc_assets_tests.pipeline.rest_records import RestRecords, differences, same
from sfcdc_assets_tests.pipeline.story import ledger, story, unhealed

pytestmark = pytest.mark.slow

KIND = "Kind__c"
WAYS = ("snapshot", "create", "update", "undelete", "read back")

PLANES = [f"<{chr(plane * 0x10000 + 0x41)}>" for plane in range(17)]
CONTROLS = [f"a{chr(code)}b" for code in (*range(0x20), *range(0x7F, 0xA0))]
SEPARATORS = [
    f"one{end}two{end}{end}four" for end in ("\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029")
]
MARKS = [
    "\u0301",
    "e\u0301 \u00e9",
    "\u202eRTL\u202c שלום مرحبا",
    "👩\u200d👩\u200d👧\u200d👦🏽🇩🇪",
    "\ufeffbyte order",
    "\u00a0no-break ends\u00a0",
    "\ufffe\uffff\U0010ffff",
    "\u2028ends\u2029",
]
LOOKALIKES = [
    "null", "NULL", "NaN", "N/A", "#N/A", "None", "nan", "true", "1e5", "-0", "0x1", "1700-01-01", "''", '"', '""',
    '"a","b"', "a\tb,c;d|e", "back\\slash \\n \\u0041", "--- \n+++ x", "=1+1", "{}", "[]", "%s %(a)s ${b}", "`~^",
    "_x000D_", "0", "00123",
]  # fmt: skip
TEXTS = [*PLANES, *CONTROLS, *SEPARATORS, *MARKS, *LOOKALIKES]
LONG = [
    "😀" * 131_072,
    ("line of text \u2028 and \x85 more\r\n" * 3000)[:-2],
    "x" * 131_072,
    "<p>rich &amp; <b>bold</b></p>\n" * 40 + "end",
]

CASES: Mapping[str, list[Any]] = {
    "Text__c": TEXTS,
    "Area__c": SEPARATORS,
    "Long__c": [*LONG, *SEPARATORS, *["short"] * (len(TEXTS) - len(LONG) - len(SEPARATORS))],
    "Rich__c": ["<p>a &lt; b</p>", "<p>\u2028</p>", "<ul><li>😀</li></ul>" * 60],
    "Pick__c": ["Hot", "Warm; or not", "Ünïcode"],
    "Multi__c": ["a", "b;a", "c;b;a", "d e;a"],
    "Phone__c": ["+49 (0)30 / 901820-😀", "5"],
    "Email__c": ["a.b+c@example.co.uk", "ü@exämple.de"],
    "Url__c": ["https://example.com/?q=a%20b&c=ü#d", "x"],
    "Secret__c": ["1234-5678", "ß😀\u0301"],
    "Check__c": [True, False],
    "Whole__c": [2**31 - 1, -(2**31), 0, -1, 7],
    "Plain__c": [999_999_999_999_999_999, -999_999_999_999_999_999, 9_007_199_254_740_993, 0, -0.0, 1e17, 12_345_678],
    "Fine__c": [1e-18, -1e-18, "0.999999999999999999", 0.1, 1.0000000000000002e-3, 1e-7, 0],
    "Middle__c": [123_456_789.123_456_789, 0.30000000000000004, -0.000_000_001, "999999999.999999999", 1e-9],
    "Money__c": ["9999999999999999.99", -0.01, 0.005, 1234.5],
    "Share__c": [50, 0.01, -100.5, 12_345_678_901_234.56],
    "Day__c": ["1700-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "4000-12-31", "1582-10-15", "1900-02-28"],
    "Moment__c": [
        "1700-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.001Z", "1970-01-01T00:00:00.000Z",
        "1899-12-31T12:34:56.789Z", "4000-12-31T23:59:59.999Z", "2024-02-29T23:30:00.120+05:30",
    ],
    "Clock__c": ["00:00:00.000Z", "23:59:59.999Z", "12:30:00Z", "01:02:03.004Z"],
    "Place__Latitude__s": [-90, 90, 0, 52.520006599999997, -0.000000000000001],
    "Place__Longitude__s": [180, -180, 13.404954, 0, 1e-15],
}  # fmt: skip
FIELDS: list[dict[str, Any]] = [
    {"Name": {"type": "string", "required": True}},
    {"Text__c": {"type": "string"}},
    {"Area__c": {"type": "textarea"}},
    {"Long__c": {"type": "long_text", "length": 131_072}},
    {"Rich__c": {"type": "rich_text"}},
    {"Pick__c": {"type": "picklist", "values": ["Hot"]}},
    {"Multi__c": {"type": "multipicklist", "values": ["a", "b", "c", "d e"]}},
    {"Phone__c": {"type": "phone"}},
    {"Email__c": {"type": "email"}},
    {"Url__c": {"type": "url"}},
    {"Secret__c": {"type": "encryptedstring"}},
    {"Parent__c": {"type": "reference", "to": KIND}},
    {"Check__c": {"type": "boolean"}},
    {"Whole__c": {"type": "int"}},
    {"Plain__c": {"type": "double", "precision": 18, "scale": 0}},
    {"Fine__c": {"type": "double", "precision": 18, "scale": 18}},
    {"Middle__c": {"type": "double", "precision": 18, "scale": 9}},
    {"Money__c": {"type": "currency", "precision": 18, "scale": 2}},
    {"Share__c": {"type": "percent"}},
    {"Day__c": {"type": "date"}},
    {"Moment__c": {"type": "datetime"}},
    {"Clock__c": {"type": "time"}},
    {"Place__c": {"type": "location"}},
]


def address(prefix: str, **more: object) -> dict[str, object]:
    parts = {"Street": "1 Main St\r\n2nd floor", "City": "Köln", "PostalCode": "50667", "State": "NW", "Country": "DE"}
    codes = {"StateCode": "BY", "CountryCode": "DE", "Latitude": 50.9375, "Longitude": 6.9603}
    return {prefix + part: value for part, value in {**parts, **codes, "GeocodeAccuracy": "Block", **more}.items()}


SHAPES: Mapping[str, dict[str, Any]] = {
    "Account": {
        "Name": "Acme",
        **address("Billing"),
        **address("Shipping", City=None, State=None),
        "Depot__Latitude__s": 1.5,
        "Depot__Longitude__s": -2.5,
    },
    "Contact": {"LastName": "Byron", "FirstName": "Ada", "Salutation": "Ms.", **address("Mailing")},
    "Lead": {"LastName": "Byron", "FirstName": "Ada", "Company": "c", **address("")},
    "Invoice_Statement__c": {"Location__Latitude__s": 1.5, "Location__Longitude__s": -2.5},
}
"""Compound fields, in their parts."""
ONE_PART: Mapping[str, dict[str, Any]] = {
    "Account": {"BillingCity": "Bonn", "ShippingCountryCode": "FR", "Depot__Latitude__s": 3},
    "Contact": {"FirstName": "Augusta", "MailingStateCode": "BE"},
    "Lead": {"FirstName": "Augusta", "Latitude": 0},
    "Invoice_Statement__c": {"Location__Latitude__s": 3},
}
ONE_PART_AGAIN: Mapping[str, dict[str, Any]] = {
    "Account": {"BillingLatitude": -0.5, "ShippingStateCode": "BY", "Depot__Longitude__s": 4},
    "Contact": {"LastName": "Lovelace", "MailingCity": "Ulm"},
    "Lead": {"Salutation": "Dr.", "Longitude": 180},
    "Invoice_Statement__c": {"Location__Longitude__s": 4},
}
OTHER = {"Account": "Phone", "Contact": "Phone", "Lead": "Phone", "Invoice_Statement__c": "Contact_Phone__c"}
"""A field beside the compound ones, whose parts must not be touched by its change."""
COUNT = max(map(len, CASES.values()))
RECORDS = [{name: values[number % len(values)] for name, values in CASES.items()} for number in range(COUNT)]


@dataclass
class Trip:
    """What was written, by each way."""

    pipeline: EmulatedPipeline
    rest: RestRecords
    ids: dict[str, list[str]] = field(default_factory=dict)
    shaped: dict[str, list[str]] = field(default_factory=dict)
    kept: str = ""
    nulled: str = ""
    emptied: str = ""
    filled: str = ""

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        return self.pipeline.rows(KIND)


@pytest.fixture(scope="module")
def trip(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trip]:
    with story(tmp_path_factory.mktemp("types"), list(SHAPES), records=2) as pipeline:
        document = {"name": KIND, "label": "Kind", "key_prefix": "a77", "fields": FIELDS}
        pipeline.org.setup.add_object(object_definition(document, KIND))
        pipeline.org.setup.add_field("Account", "Depot__c", {"type": "location"})
        pipeline.org.setup.enable_state_and_country_codes()
        description = Trip(pipeline, RestRecords(pipeline))
        rest, ids = description.rest, description.ids
        named = [{"Name": "n", **values} for values in RECORDS]
        parent = rest.create(KIND, [{"Name": "parent"}])[0]
        ids["snapshot"] = rest.create(KIND, [{"Parent__c": parent[:15], **values} for values in named])
        ids["undelete"] = rest.create(KIND, named[:20])
        description.kept, description.nulled, description.emptied, description.filled = rest.create(
            KIND, [named[0]] * 3 + [{"Name": "bare"}]
        )
        for entity, values in SHAPES.items():
            description.shaped[entity] = rest.create(entity, [values, *([{**values, **ONE_PART[entity]}] * 3)])
        pipeline.sync()

        for entity, values in SHAPES.items():
            _, changed, nulled, other = description.shaped[entity]
            description.shaped[entity] += rest.create(entity, [values])
            parts = dict.fromkeys(ONE_PART[entity])
            rest.update(entity, {changed: ONE_PART_AGAIN[entity], nulled: parts, other: {OTHER[entity]: "x"}})
        ids["create"] = rest.create(KIND, [{"Parent__c": parent, **values} for values in named])
        for way in ("update", "read back"):
            ids[way] = rest.create(KIND, [{"Name": "blank"}] * COUNT)
        values_of = dict(zip(ids["update"], ({"Parent__c": parent[:15], **values} for values in named), strict=True))
        rest.update(KIND, values_of)
        for record_id in ids["undelete"]:
            rest.delete(KIND, record_id)
        for record_id in ids["undelete"]:
            rest.undelete(KIND, record_id)
        unfilled = {name: None for name in CASES if name != "Check__c"}
        rest.update(KIND, {description.nulled: unfilled, description.filled: named[1]})
        texts = {name: "" for name, values in CASES.items() if isinstance(values[0], str)}
        rest.update(KIND, {description.emptied: texts})
        rest.update(KIND, {description.kept: {"Check__c": False}})
        pipeline.server.faults.arm(Fault.INTERNAL_ERROR, COUNT)
        rest.update(KIND, dict(zip(ids["read back"], named, strict=True)))
        pipeline.sync()
        yield description


def values_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in CASES}


@pytest.mark.parametrize("way", WAYS)
def test_a_row_holds_exactly_what_rest_gives(trip: Trip, way: str) -> None:
    expected = trip.rest.rows(KIND, trip.ids[way])
    assert len(expected) == len(trip.ids[way])
    assert differences(trip.rows, expected) == []


def test_a_record_of_the_snapshot_has_the_values_of_one_that_came_by_event(trip: Trip) -> None:
    rows = trip.rows
    for way in WAYS[1:]:
        for one, other in zip(trip.ids["snapshot"], trip.ids[way], strict=False):
            first, second = values_of(rows[one]), values_of(rows[other])
            assert all(same(first[name], second[name]) for name in CASES), (way, first, second)


def test_texts_come_through_unchanged_by_any_way(trip: Trip) -> None:
    rows = trip.rows
    for way in WAYS:
        for record_id, written in zip(trip.ids[way], RECORDS, strict=False):
            for name in ("Text__c", "Long__c", "Secret__c", "Phone__c"):
                # What the org itself takes off is seen by REST, and compared above.
                assert rows[record_id][name] == str(written[name]).strip("".join(map(chr, range(33)))), (way, written)


def test_a_nulled_field_an_emptied_one_and_an_unchanged_one_are_reported_apart(trip: Trip) -> None:
    rows, expected = trip.rows, trip.rest.rows(KIND, [trip.kept, trip.nulled, trip.emptied, trip.filled])
    assert differences(rows, expected) == []
    assert all(rows[trip.nulled][name] is None for name in CASES if name != "Check__c")
    assert all(rows[trip.kept][name] is not None for name in CASES)
    assert rows[trip.emptied]["Text__c"] is None
    assert rows[trip.emptied]["Whole__c"] is not None


def test_history_ends_with_the_same_values_and_names_what_was_set(trip: Trip) -> None:
    rows = trip.rows
    versions = [row for row in trip.pipeline.all_versions(KIND) if row["_valid_to"] is None]
    assert len(versions) == len(rows)
    for version in versions:
        row = rows[version["Id"]]
        assert all(same(version[name], row[name]) for name in row if not name.startswith("_")), version
    last = {version["Id"]: version for version in versions}
    assert {"Check__c"} <= set(last[trip.kept]["_changed_fields"]) <= {"Check__c", "LastModifiedDate"}
    assert set(CASES) - {"Check__c"} <= set(last[trip.nulled]["_changed_fields"])


def test_an_id_of_15_characters_names_the_record(trip: Trip) -> None:
    warehouse = Warehouse(str(trip.pipeline.warehouse))
    long_id = trip.ids["update"][0]
    chain = explain_record(warehouse, KIND, long_id[:15], "Text__c")
    assert chain["Id"].to_list() == [long_id, long_id]
    assert chain.equals(explain_record(warehouse, KIND, long_id, "Text__c"))
    assert chain["value"].to_list() == [None, RECORDS[0]["Text__c"]]


def test_only_what_the_stream_left_open_was_read_back(trip: Trip) -> None:
    assert {entry["record_id"] for entry in ledger(trip.pipeline, KIND)} == set(trip.ids["read back"])
    assert unhealed(trip.pipeline) == []
    trip.pipeline.assert_equal_to_the_org()


@pytest.mark.parametrize("entity", list(SHAPES))
def test_parts_of_compound_fields_change_alone(trip: Trip, entity: str) -> None:
    rows = trip.pipeline.rows(entity)
    expected = trip.rest.rows(entity, trip.shaped[entity])
    assert differences(rows, expected) == []
    day_zero, changed, nulled, other, created = (rows[record_id] for record_id in trip.shaped[entity])
    for name, value in SHAPES[entity].items():
        assert day_zero[name] == created[name] == value
        assert other[name] == ONE_PART[entity].get(name, value)
        assert changed[name] == {**ONE_PART[entity], **ONE_PART_AGAIN[entity]}.get(name, value)
        assert nulled[name] == (None if name in ONE_PART[entity] else value)
