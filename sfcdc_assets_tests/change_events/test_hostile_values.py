"""Whatever stands in a record, no value stops its entity: each becomes a cell, or an error of its own record.

Every describe type, in Avro, in JSON, in a page of CSV and in an answer of REST. What a reader takes must fit Arrow, be
shown by Python and be written to Parquet.
"""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import arrow_schema, columns
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.event_schema import HEADER_FIELD
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.runtime.foreign_text import unicode_bytes, unicode_text
from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.snapshot.pages import csv_schema, page_table
from sfcdc_assets.timeline.decoded_events import FIELDS_AT_ONCE, FIELDS_OF_A_HEADER, EventReader
from sfcdc_assets.timeline.rest_rows import rest_array
from sfcdc_assets.timeline.values import FROM_MEMBER
from sfcdc_assets_tests.change_events.written_event import described_object, event_schema, header, optional, payload

AVRO = {
    "string": ("string", None),
    "textarea": ("string", "Data:StringPlusClob"),
    "picklist": ("string", "Data:DynamicEnum"),
    "reference": ("string", "ForeignKey:EntityId"),
    "multipicklist": ({"type": "array", "items": "string"}, "Data:MultiEnum"),
    "boolean": ("boolean", "Data:Boolean"),
    "int": ("int", "Data:Integer"),
    "long": ("long", None),
    "double": ("double", "Data:Double"),
    "currency": ("double", "Data:Currency"),
    "percent": ("double", "Data:Percent"),
    "date": ("long", "Data:DateOnly"),
    "datetime": ("long", "Data:DateTime"),
    "time": ("long", "Data:TimeOnly"),
    "anyType": ("string", None),
    "base64": ("string", None),
}
"""Describe type -> how an event's schema has it."""
SCHEMA = event_schema(*(optional(f"{kind.capitalize()}__c", avro, doc=doc) for kind, (avro, doc) in AVRO.items()))
NAMES = [f"{kind.capitalize()}__c" for kind in AVRO]
DESCRIBED = described_object(
    [{"name": "Id", "type": "id"}, *({"name": f"{kind.capitalize()}__c", "type": kind} for kind in AVRO)]
)
PLAIN = columns(SCHEMA, DESCRIBED)
KEY = HashKey.of("a key for the tests")
HASHED = tuple(column if column.name == "Id" else column.hashed(KEY) for column in PLAIN)
ENOUGH_FOR_A_BATCH = FIELDS_AT_ONCE // FIELDS_OF_A_HEADER + 1
"""Events that are read at once."""
HALF = "cut \ud83d"
HOSTILE = (
    *(HALF, "\ude00\ud83d", "\x00", "", " ", "nan", "1e999", "true", "9" * 400, "../x", "a" * 15),
    *("0000-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999-12:00", "24:00:00.000Z"),
)
TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Lu"]), max_size=20),
    st.sampled_from(HOSTILE),
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["diff", "Street"]), inner, max_size=2),
    max_leaves=3,
)
AVRO_VALUES = {
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
}
READ_AT = datetime(2026, 1, 1, tzinfo=UTC)


def readable(table: pa.Table) -> None:
    """Fails unless Python, Polars and Parquet take the table."""
    table.validate(full=True)
    table.to_pylist()
    pl.DataFrame(table).rows()
    pq.write_table(table, io.BytesIO())


def read_events(payloads: list[bytes], of: tuple[Column, ...]) -> list[dict[str, Any]]:
    count = len(payloads)
    decoded = EventReader({"s": json.dumps(SCHEMA)}, of).read(
        pa.chunked_array([pa.array(["s"] * count)]),
        pa.chunked_array([pa.array(range(1, count + 1), pa.int64())]),
        pa.chunked_array([pa.array(payloads, pa.binary())]),
    )
    rows = decoded.to_pylist()
    for row in rows:
        for cell in row["cells"]:
            member, dtype = FROM_MEMBER[of[cell["column"]].type]
            pl.Series([cell[member]], dtype=pl.Int64 if member == "l" else None).cast(dtype).to_list()
    readable(decoded)
    return rows


def json_event(body: dict[str, Any]) -> bytes:
    head = {**header(change_type="UPDATE"), "changedFields": list(body)}
    for name in ("nulledFields", "diffFields"):
        head.pop(name)
    head["changeType"] = "UPDATE"
    return json.dumps({HEADER_FIELD: head, **body}, ensure_ascii=False).encode(errors="surrogatepass")


@given(st.dictionaries(st.sampled_from(NAMES), JSON_VALUES, max_size=4), st.sampled_from([PLAIN, HASHED]))
def test_an_event_in_json_with_any_value_is_read_or_is_suspect_by_itself(
    body: dict[str, Any], of: tuple[Column, ...]
) -> None:
    sound = json_event({"Int__c": 7})
    _, after = read_events([json_event(body), sound], of)
    assert after["error"] is None
    assert len(after["cells"]) == 1


@given(st.data())
def test_an_event_in_avro_with_any_value_is_read_or_is_suspect_by_itself(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from([kind for kind in AVRO if kind != "multipicklist"]), unique=True))
    body = {f"{kind.capitalize()}__c": data.draw(AVRO_VALUES[str(AVRO[kind][0])]) for kind in kinds}
    of = data.draw(st.sampled_from([PLAIN, HASHED]))
    hostile = payload(SCHEMA, header(change_type="CREATE"), body)
    sound = payload(SCHEMA, header(change_type="CREATE"), {"Int__c": 7})
    one_by_one = read_events([hostile, sound], of)
    at_once = read_events([hostile] + [sound] * ENOUGH_FOR_A_BATCH, of)
    assert repr(one_by_one[0]) == repr(at_once[0])
    assert one_by_one[1]["error"] is None


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=4), max_size=3), st.booleans())
def test_a_page_of_csv_with_any_value_gives_all_rows_but_those_that_do_not_convert(
    records: list[dict[str, str]], hashed: bool
) -> None:
    of = HASHED if hashed else PLAIN
    names = ["Id", "IsDeleted", "SystemModstamp", *NAMES]
    sound = {"IsDeleted": "false", "SystemModstamp": "2026-01-01T00:00:00.000Z"}
    lines = [names]
    for number, record in enumerate([*records, {"Int__c": "7"}]):
        values = {**sound, **record, "Id": f"a0T{number:015}"}
        lines.append([values.get(name, "") for name in names])
    text = "".join(",".join('"' + value.replace('"', '""') + '"' for value in line) + "\n" for line in lines)
    page = read_page(io.BytesIO(text.encode(errors="surrogatepass")), csv_schema(of), "a page")
    table = page_table(page.table, names, of, source="a page")
    readable(table)
    assert table.num_rows + len(page.unreadable) == len(records) + 1
    assert f"a0T{len(records):015}" not in page.unreadable


@given(st.sampled_from(PLAIN), JSON_VALUES, st.booleans())
def test_an_answer_of_rest_with_any_value_is_read_or_refused_by_itself(
    column: Column, value: Any, hashed: bool
) -> None:
    of = column.hashed(KEY) if hashed and column.name != "Id" else column
    try:
        read = rest_array(of, [value, None], "https://org")
    except UnexpectedAnswer:
        return
    readable(pa.table([read], schema=arrow_schema([of])))


@given(TEXTS)
def test_half_a_surrogate_pair_is_one_replacement_character_whichever_way_it_comes(text: str) -> None:
    expected = unicode_text(text) or None
    assert unicode_text(unicode_text(text)) == unicode_text(text)
    assert unicode_bytes(text.encode(errors="surrogatepass")).decode() == unicode_text(text)
    index = next(number for number, column in enumerate(PLAIN) if column.name == "String__c")
    event = read_events([json_event({"String__c": text})], PLAIN)[0]
    assert [(cell["column"], cell["s"]) for cell in event["cells"]] == [(index, expected)]
    assert rest_array(PLAIN[index], [text], "https://org").to_pylist() == [unicode_text(text)]


def test_a_cut_emoji_keeps_the_text_around_it() -> None:
    assert unicode_text("a\ud83db") == "a\ufffdb"
    assert unicode_text("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1])
def test_a_field_of_type_long_holds_every_number_of_64_bits_from_everywhere(number: int) -> None:
    index, column = next((n, column) for n, column in enumerate(PLAIN) if column.name == "Long__c")
    avro = payload(SCHEMA, header(change_type="CREATE"), {"Long__c": number})
    for event in (*read_events([avro] * 400, PLAIN), *read_events([json_event({"Long__c": number})], PLAIN)):
        assert event["error"] is None
        assert str(number) in [cell["s"] for cell in event["cells"] if cell["column"] == index]
    assert rest_array(column, [number], "https://org").to_pylist() == [str(number)]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_no_value_of_a_column(value: float) -> None:
    event = payload(SCHEMA, header(change_type="CREATE"), {"Double__c": value})
    assert {bool(row["error"]) for row in read_events([event] * 400, PLAIN)} == {True}
