"""A second form of payload goes the way of the first: JSON, as CometD delivers it, becomes the same event."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events import Column, DecodedEvent, PayloadError
from sfcdc_assets.change_events.json_event import JsonEventDecoder
from sfcdc_assets.change_events.payload_form import AVRO, BY_FIRST_BYTE, JSON, form_of, header_of_payload
from sfcdc_assets.timeline.changes import ChangeReader
from sfcdc_assets_tests.change_events.json_form import as_json
from sfcdc_assets_tests.change_events.test_decode import BODY, COLUMNS, DECODER, NAMES, SCHEMA, VALUES, updated
from sfcdc_assets_tests.change_events.written_event import event_schema, header, payload
from sfcdc_assets_tests.examples import examples
from sfcdc_assets_tests.timeline.builders import timeline_of

SCHEMA_JSON = json.dumps(SCHEMA)
JSON_DECODER = JsonEventDecoder(SCHEMA_JSON, COLUMNS)


def said(event: DecodedEvent) -> tuple[object, ...]:
    """An event, in whatever order its cells are."""
    return event.header, dict(event.cells), event.diff_columns, event.missing, dict(event.enriched)


def test_no_change_event_in_avro_begins_like_another_form() -> None:
    for entity in ("X", "Account", "E" * 61, "É" * 100):
        written = payload(event_schema(entity=entity), header(entityName=entity))
        assert written[0] % 2 == 0
        assert form_of(written) is AVRO
    assert form_of(b"") is AVRO
    assert form_of(as_json(payload(SCHEMA, header()), SCHEMA)) is JSON
    assert all(ord(first) % 2 for first in BY_FIRST_BYTE)


@pytest.mark.parametrize("change_type", ["CREATE", "UPDATE", "DELETE", "UNDELETE", "GAP_UPDATE", "GAP_OVERFLOW"])
@pytest.mark.parametrize("body", [{}, BODY, {**BODY, "Name": {"FirstName": "Ada", "LastName": "L"}}])
def test_an_event_in_json_is_the_event_in_avro(change_type: str, body: dict[str, Any]) -> None:
    written = payload(SCHEMA, header(change_type, changedFields=[]), body)
    assert said(JSON_DECODER.decode(as_json(written, SCHEMA))) == said(DECODER.decode(written))


@settings(max_examples=examples(4))
@given(
    st.fixed_dictionaries({}, optional={path: st.none() | value for path, value in VALUES.items()}),
    st.booleans(),
)
def test_an_update_that_names_its_fields_is_the_one_whose_bitmaps_do(changes: dict[str, Any], is_diff: bool) -> None:
    body: dict[str, Any] = {"Prefs": ["enriched"]}
    for path, value in changes.items():
        parent, _, child = path.partition(".")
        if child:
            body.setdefault(parent, {"Street": None, "City": None, "Latitude": None})[child] = value
        else:
            body[parent] = value
    diffs = ("Description",) if is_diff else ()
    body |= dict.fromkeys(diffs, "--- \n+++ 0f")
    nulled = tuple(path for path, value in changes.items() if value is None)
    written = payload(SCHEMA, updated(*changes, *diffs, nulled=nulled, diffs=diffs), body)
    assert said(JSON_DECODER.decode(as_json(written, SCHEMA))) == said(DECODER.decode(written))


def test_a_value_that_does_not_fit_is_reported_the_same_way_in_every_form() -> None:
    written = json.loads(as_json(payload(SCHEMA, header("CREATE"), BODY), SCHEMA))
    written["CreatedDate"] = "yesterday"
    with pytest.raises(PayloadError, match=r"Account\.CreatedDate cannot be decoded") as refused:
        JSON_DECODER.decode(json.dumps(written).encode())
    assert "yesterday" not in str(refused.value), "a value may be private"


def rows(*payloads: bytes) -> pa.Table:
    """As `raw_events` has them."""
    heads = [header_of_payload(each) for each in payloads]
    count = len(payloads)
    return pa.table(
        {
            "channel": ["/data/ChangeEvents"] * count,
            "position": list(range(1, count + 1)),
            "schema_id": ["schema"] * count,
            "payload": pa.array(payloads, pa.binary()),
            "record_ids": [list(head.record_ids) for head in heads],
            "change_type": [str(head.change_type) for head in heads],
            "commit_timestamp": pa.array([n * 1_000_000 for n in range(1, count + 1)], pa.timestamp("us", "UTC")),
            "commit_user": [head.commit_user for head in heads],
            "change_origin": [head.change_origin for head in heads],
            "transaction_key": [head.transaction_key for head in heads],
        }
    )


def test_changes_and_versions_are_the_same_whatever_form_each_event_came_in() -> None:
    large = (Column("Description", COLUMNS[NAMES.index("Description")].type, True, "textarea"),)
    columns = tuple(large[0] if column.name == "Description" else column for column in COLUMNS)
    avro = [
        payload(SCHEMA, header("CREATE"), BODY),
        payload(SCHEMA, updated("BillingAddress.City", "AnnualRevenue"), {"BillingAddress": _address("Bonn")}),
        payload(SCHEMA, updated("Active", nulled=("Description",)), {"Active": True}),
        payload(SCHEMA, updated("Description"), {"Description": "new"}),
        payload(SCHEMA, header("DELETE")),
        payload(SCHEMA, header("UNDELETE"), BODY),
    ]
    mixed = [as_json(each, SCHEMA) if number % 2 else each for number, each in enumerate(avro)]
    in_json = [as_json(each, SCHEMA) for each in avro]
    versions = []
    for written in (avro, mixed, in_json):
        changes = ChangeReader({"schema": SCHEMA_JSON}, columns).read(rows(*written))
        versions.append(timeline_of(changes, columns))
    assert versions[0].superseded.height == 5
    for other in versions[1:]:
        assert other.rows.equals(versions[0].rows)
        assert other.superseded.equals(versions[0].superseded)
        assert other.new_texts.equals(versions[0].new_texts)


def _address(city: str) -> dict[str, Any]:
    return {"Street": None, "City": city, "Latitude": None}
