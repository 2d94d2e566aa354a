"""An event goes on without an erased record, as the org would have sent it for the others."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events.erased_event import erase_from_events, without_records
from sfcdc_assets.change_events.header import header_record
from sfcdc_assets.change_events.payload_form import header_of_payload

HEADER = fastavro.parse_schema(dict(header_record(None)))
ids = st.lists(
    st.sampled_from([f"003Xa0000000{each:02}IAK" for each in range(1, 80)]), min_size=1, max_size=70, unique=True
)


def event(record_ids: list[str], body: bytes = b"") -> bytes:
    sink = io.BytesIO()
    header: dict[str, Any] = {
        "entityName": "Contact",
        "recordIds": record_ids,
        "changeType": "UPDATE",
        "changeOrigin": "",
        "transactionKey": "key",
        "sequenceNumber": 1,
        "commitTimestamp": 1_700_000_000_000,
        "commitNumber": 7,
        "commitUser": "005",
        "nulledFields": [],
        "diffFields": [],
        "changedFields": ["0x02"],
    }
    fastavro.schemaless_writer(sink, HEADER, header)
    return sink.getvalue() + body


@given(ids, st.data(), st.binary(max_size=20))
@settings(max_examples=60, deadline=None)
def test_avro_is_byte_for_byte_that_of_the_others(named: list[str], data: st.DataObject, body: bytes) -> None:
    gone = data.draw(st.sets(st.sampled_from(named)))
    left = [each for each in named if each not in gone]
    assert without_records(event(named, body), gone) == (event(left, body) if left else None)


def test_blocks_of_a_negative_count_have_their_size_before_them() -> None:
    one, other = (b"\x06" + each for each in (b"aaa", b"bbb"))
    plain = event(["aaa", "bbb"])
    blocks = plain.replace(b"\x04" + one + other + b"\x00", b"\x01\x08" + one + b"\x02" + other + b"\x00", 1)
    assert header_of_payload(blocks).record_ids == ("aaa", "bbb")
    assert without_records(blocks, {"aaa"}) == event(["bbb"])


def test_json_keeps_all_but_the_id() -> None:
    header = {
        "entityName": "Contact", "recordIds": ["a", "b"], "changeType": "UPDATE", "changeOrigin": "",
        "transactionKey": "k", "sequenceNumber": 1, "commitTimestamp": 1, "commitNumber": 1, "commitUser": "u",
        "changedFields": ["Name"],
    }  # fmt: skip
    payload = json.dumps({"ChangeEventHeader": header, "Name": "Zoë"}).encode()
    written = without_records(payload, {"a"})
    assert written is not None
    assert json.loads(written) == {"ChangeEventHeader": {**header, "recordIds": ["b"]}, "Name": "Zoë"}
    assert without_records(payload, {"a", "b"}) is None


def test_a_payload_that_cannot_be_read_is_not_kept() -> None:
    assert without_records(b"\x0eCont", {"a"}) is None
    assert without_records(b"{", {"a"}) is None


def test_of_an_event_of_nobody_else_the_header_stays() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table(
        {
            "position": [1, 2, 3],
            "record_ids": [["a"], ["b"], ["a", "b"]],
            "payload": pa.array([event(["a"]), event(["b"]), event(["a", "b"])], pa.binary()),
            "commit_timestamp": [at, at, at],
        }
    )
    assert erase_from_events(rows, lambda each, _: each == "c") is rows
    left = erase_from_events(rows, lambda each, _: each == "a")
    assert left["position"].to_pylist() == [1, 2, 3]
    assert left["record_ids"].to_pylist() == [[], ["b"], ["b"]]
    assert left["payload"].to_pylist() == [None, event(["b"]), event(["b"])]
