"""read_header: the header alone, by its own schema."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events import ChangeType, HeaderError, read_header
from sfcdc_assets.change_events.delivered_headers import read_headers
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets_tests.change_events.written_event import SYMBOLS, event_schema, header, optional, payload

SCHEMA = event_schema(optional("Name", "string"))


def test_a_broken_body_does_not_matter() -> None:
    written = payload(SCHEMA, header(recordIds=["a", "b"], changedFields=["0x02"]), {"Name": "x" * 50})
    whole = read_header(written, SCHEMA)
    assert read_header(written[:-45] + b"\xff\xff", SCHEMA) == whole
    assert whole.record_ids == ("a", "b")
    assert whole.change_type is ChangeType.UPDATE


def test_every_field_is_read() -> None:
    read = read_header(payload(SCHEMA, header("CREATE")), SCHEMA)
    assert read.entity_name == "Account"
    assert read.change_origin == "com/salesforce/api/rest/59.0;client=test"
    assert read.transaction_key == "0001-key"
    assert (read.sequence_number, read.commit_timestamp, read.commit_number) == (
        1,
        1_690_000_000_000,
        11_862_137_384_961,
    )
    assert read.commit_user == "005Dp000000PpjsIAC"


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_without_a_schema_the_published_header_is_assumed(symbol: str) -> None:
    assert read_header(payload(SCHEMA, header(symbol))).change_type == symbol


def test_the_symbols_are_those_of_the_events_own_schema() -> None:
    reordered = event_schema(optional("Name", "string"), symbols=["DELETE", "CREATE"])
    written = payload(reordered, header("CREATE"))
    assert read_header(written, reordered).change_type is ChangeType.CREATE
    assert read_header(written, SCHEMA).change_type is ChangeType.UPDATE


def test_a_symbol_newer_than_this_package_is_unknown_and_asks_for_a_read_back() -> None:
    newer = event_schema(symbols=[*SYMBOLS, "MERGE"])
    read = read_header(payload(newer, header("MERGE")), newer)
    assert read.change_type is ChangeType.UNKNOWN
    assert not read.is_gap


def test_an_index_beyond_the_symbols_is_a_header_error() -> None:
    nine = event_schema(symbols=SYMBOLS[:9])
    with pytest.raises(HeaderError, match="changeType 9 is not one of the schema's 9 symbols"):
        read_header(payload(SCHEMA, header("SNAPSHOT")), nine)


def test_a_negative_index_does_not_pass_for_the_last_symbol() -> None:
    written = bytearray(payload(SCHEMA, header("CREATE", entityName="", recordIds=[])))
    assert written[:3] == b"\x00\x00\x00"
    written[2] = 1  # zigzag -1
    with pytest.raises(HeaderError, match="changeType -1"):
        read_header(bytes(written), SCHEMA)


@pytest.mark.parametrize("values", [{"commitTimestamp": 2**60}, {"commitTimestamp": -1}])
def test_a_time_no_table_could_hold_is_a_header_error(values: dict[str, int]) -> None:
    with pytest.raises(HeaderError, match="commitTimestamp"):
        read_header(payload(SCHEMA, header(**values)), SCHEMA)


def test_gaps_and_their_kin() -> None:
    assert {member for member in ChangeType if member.is_gap} == {m for m in ChangeType if m.value.startswith("GAP_")}
    assert {member for member in ChangeType if member.carries_all_fields} == {ChangeType.CREATE, ChangeType.UNDELETE}


@pytest.mark.parametrize("schema", [{}, {"fields": []}, {"fields": [{"name": "Name", "type": "string"}]}])
def test_a_schema_without_a_header_is_a_header_error(schema: dict[str, object]) -> None:
    with pytest.raises(HeaderError, match="schema it came with"):
        read_header(b"", schema)


@given(st.binary(max_size=200))
def test_garbage_is_a_header_or_a_header_error(garbage: bytes) -> None:
    with contextlib.suppress(HeaderError):
        read_header(garbage, SCHEMA)


@given(st.data())
def test_a_header_cut_short_is_a_header_error(data: st.DataObject) -> None:
    written = payload(SCHEMA, header())
    cut = data.draw(st.integers(0, len(written) - 2))  # the last byte is the body's null
    with pytest.raises(HeaderError):
        read_header(written[:cut], SCHEMA)


HOSTILE_NAMES = [
    "../../../outside/Evil",
    "Account/../Evil",
    "",
    "Account'",
    "Konto\u00e4",
    "Account\n",
    "a" * 300,
    "..",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_an_entity_whose_name_is_no_api_name_is_a_header_error(name: str) -> None:
    schema = event_schema()
    with pytest.raises(HeaderError, match="entityName is not the API name"):
        read_header(payload(schema, header(entityName=name)), schema)


def test_among_many_headers_those_with_such_a_name_are_refused_alone() -> None:
    schema = event_schema()
    names = [*HOSTILE_NAMES, *["ns__Order__c"] * 40]
    payloads = [payload(schema, header(entityName=name)) for name in names]
    events = [DeliveredEvent("id", "s", each, b"1", 0) for each in payloads]
    of_order = {**schema, "name": "ns__Order__ChangeEvent"}
    read, errors = read_headers(events, pa.array(payloads, pa.binary()), lambda _: of_order)
    assert read["entity_name"].to_pylist() == ["ns__Order__c"] * 40
    assert [error is not None for error in errors] == [True] * len(HOSTILE_NAMES) + [False] * 40


SHORT, LONG = "001Fa000000CaR6", "001Fa000000CaR6IAK"


@pytest.mark.parametrize("whole", [2, 40], ids=["one by one", "many at once"])
def test_a_header_that_names_no_record_or_another_object_than_its_schema_is_refused_and_short_ids_are_written_out(
    whole: int,
) -> None:
    schema = event_schema()
    ids: list[list[str]] = [[], [""], ["'; --"], [LONG, "../x"], [SHORT, LONG], ["001*"], ["000000000000000AAA"]]
    headers = [header(recordIds=each) for each in ids]
    headers += [header(entityName="Contact"), header(entityName="account")]
    headers += [header(recordIds=[LONG])] * whole
    payloads = [payload(schema, each) for each in headers]
    events = [DeliveredEvent("id", "s", each, b"1", 0) for each in payloads]
    read, errors = read_headers(events, pa.array(payloads, pa.binary()), lambda _: schema)
    assert [error is not None for error in errors] == [True] * 4 + [False] * 3 + [True] * 2 + [False] * whole
    assert read["record_ids"].to_pylist() == [[LONG, LONG], ["001*"], ["000000000000000AAA"], *[[LONG]] * whole]
    unknown, errors = read_headers(events, pa.array(payloads, pa.binary()), lambda _: None)
    assert unknown["entity_name"].to_pylist()[3:5] == ["Contact", "account"]
