"""A hashed column has one hash for one value, whichever way the value came: event, bulk page, record read back.

The emulated org writes the three forms of a value, with code that this package does not use to read them, and the hash
is worked out here from the value alone.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import Column, ColumnType, EventDecoder, PayloadError, arrow_schema, columns
from sfcdc_assets.change_events.columns import columns_of_arrow_schema
from sfcdc_assets.change_events.hash_key import HashKey, HashKeyMissing
from sfcdc_assets.change_events.value_text import number_text
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.events.avro.event_body import EventCodec
from sfcdc_assets.emulator.org.ids import to_18
from sfcdc_assets.emulator.rest.csv_form import cells, csv_line, csv_lines
from sfcdc_assets.emulator.rest.record_json import rest_value
from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.snapshot.pages import csv_schema, page_table
from sfcdc_assets.timeline.rest_rows import rest_array
from sfcdc_assets_tests.change_events.written_event import described_object, event_schema, header, optional, payload

SECRET = "a key for the tests"
KEY = HashKey.of(SECRET)
TYPES = (
    "string",
    "textarea",
    "long_text",
    "rich_text",
    "picklist",
    "multipicklist",
    "combobox",
    "boolean",
    "int",
    "double",
    "currency",
    "percent",
    "date",
    "datetime",
    "time",
    "phone",
    "email",
    "url",
    "encryptedstring",
)
"""The field types that events carry, as the emulated org spells them; a reference besides."""
DEFINITION = object_definition(
    {
        "name": "Thing__c",
        "label": "Thing",
        "key_prefix": "a0T",
        "fields": [
            *({f"{kind.replace('_', '')}__c": {"type": kind}} for kind in TYPES),
            {"reference__c": {"type": "reference", "to": "Account"}},
            {"Spot__c": {"type": "location"}},
        ],
    },
    "this test",
)
CODEC = EventCodec(DEFINITION)
DESCRIBE = described_object(
    [{"name": field.name, "type": field.type, "length": field.length} for field in DEFINITION.stored_fields]
)
COLUMNS = tuple(column if column.name == "Id" else column.hashed(KEY) for column in columns(CODEC.schema, DESCRIBE))
DECODER = EventDecoder(CODEC.schema_json, COLUMNS)
RECORD_ID = "a0T000000000001AAA"

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "double": DOUBLE,
    "currency": DOUBLE,
    "percent": DOUBLE,
    "date": st.dates(dt.date(1700, 1, 1), dt.date(4000, 12, 31)).map(dt.date.isoformat),
    "datetime": st.integers(-8_520_336_000_000, 64_092_211_199_999),
    "time": st.integers(0, 86_399_999).map(
        lambda ms: (dt.datetime(1, 1, 1) + dt.timedelta(milliseconds=ms)).time().isoformat("milliseconds")
    ),
    "reference": st.text("0123456789ABCXYZabcxyz", min_size=15, max_size=15).map(to_18),
}


def expected(kind: str, value: Any) -> str:
    """The hash of the value's text, from the value as the org stores it."""
    if kind == "boolean":
        text = {True: "true", False: "false"}[value]
    elif kind in ("double", "currency", "percent"):
        text = f"{Decimal(repr(value)):f}"
        text = (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"
    elif kind == "datetime":
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)
        text = f"{moment:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z"
        assert moment.year >= 1000
    else:
        text = str(value)
    return hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()


def by_event(values: dict[str, Any], change_type: str) -> dict[str, Any]:
    changed = {"changedFields": CODEC.bitmap(values)} if change_type == "UPDATE" else {}
    body = CODEC.payload(header(change_type, **changed), CODEC.body(values, values))
    return {COLUMNS[index].name: value for index, value in DECODER.decode(body).cells}


def by_page(values: dict[str, Any]) -> dict[str, Any]:
    fields = [field for field in DEFINITION.stored_fields if field.name in values]
    lines = [csv_line(["Id", *(field.name for field in fields)], ",")]
    lines += csv_lines([[RECORD_ID], *(cells(field, [values[field.name]]) for field in fields)], ",", "")
    rows = read_page(io.BytesIO(("\n".join(lines) + "\n").encode()), csv_schema(COLUMNS), "a page").table
    (row,) = page_table(rows, ["Id", *values], COLUMNS, source="a page").to_pylist()
    return {name: row[name] for name in values}


def by_read_back(values: dict[str, Any]) -> dict[str, Any]:
    fields = {field.name: field for field in DEFINITION.stored_fields}
    sent = json.loads(json.dumps({name: rest_value(fields[name], value) for name, value in values.items()}))
    by_name = {column.name: column for column in COLUMNS}
    return {name: rest_array(by_name[name], [value], "an address").to_pylist()[0] for name, value in sent.items()}


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A value or null for each field."""
    values = {}
    for field in DEFINITION.stored_fields:
        if field.name.endswith(("__c", "__s")):
            given_value = draw(st.none() | VALUES.get(field.type, TEXT))
            values[field.name] = False if given_value is None and field.type == "boolean" else given_value
    return values


@given(records())
def test_every_way_gives_the_hmac_of_the_values_one_text(values: dict[str, Any]) -> None:
    kinds = {field.name: field.type for field in DEFINITION.stored_fields}
    hashes = {name: None if value is None else expected(kinds[name], value) for name, value in values.items()}
    assert {kinds[name] for name in hashes} >= {column.salesforce_type for column in COLUMNS} - {"id", "string"}
    created = by_event(values, "CREATE")
    assert {name: created[name] for name in hashes} == hashes
    assert by_page(values) == hashes
    assert by_read_back(values) == hashes
    # An update's bitmap names what it sets to null apart; here all that has a value is changed.
    changed = {name: value for name, value in values.items() if value is not None}
    assert by_event(changed, "UPDATE").items() >= {name: hashes[name] for name in changed}.items()


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_there_is_one_zero(zero: float) -> None:
    assert number_text(zero) == "0"


def test_a_tables_schema_tells_which_columns_are_hashed_and_with_which_key_but_not_the_key() -> None:
    schema = arrow_schema(COLUMNS)
    assert columns_of_arrow_schema(schema) == COLUMNS
    assert {field.type for field in schema} == {arrow_schema([Column("F", ColumnType.STRING)]).field(0).type}
    assert schema.field("date__c").metadata == {b"salesforce.type": b"date", b"salesforce.hashed": KEY.id.encode()}
    other = HashKey.of("another key")
    assert columns_of_arrow_schema(arrow_schema([COLUMNS[1].hashed(other)])) != COLUMNS[1:2]
    with pytest.raises(HashKeyMissing, match=KEY.id):
        columns_of_arrow_schema(schema)[1].hash_key.digest("text")


def test_the_key_is_named_by_its_id_only() -> None:
    assert KEY.id == hmac.new(SECRET.encode(), b"sfcdc_assets key id", hashlib.sha256).hexdigest()[:8]
    assert SECRET not in repr(COLUMNS)
    assert repr(SECRET.encode()) not in repr(COLUMNS)
    assert pickle.loads(pickle.dumps(KEY)).digest("text") == KEY.digest("text"), "tasks get it with their columns"


def test_a_value_that_does_not_fit_is_not_shown() -> None:
    schema = event_schema(optional("Score__c", "string", doc="Data:Text"))
    column = Column("Score__c", ColumnType.DOUBLE, salesforce_type="double").hashed(KEY)
    body = payload(schema, header("CREATE"), {"Score__c": "SENTINEL"})
    with pytest.raises(PayloadError, match="its value is no double") as refused:
        EventDecoder(json.dumps(schema), [column]).decode(body)
    assert "SENTINEL" not in str(refused.value)
    with pytest.raises(UnexpectedAnswer, match="Score__c holds a value that is no double") as unexpected:
        rest_array(column, ["SENTINEL"], "https://org")
    assert "SENTINEL" not in str(unexpected.value)
