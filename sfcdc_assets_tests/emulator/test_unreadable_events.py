"""Payloads that cannot be read, wholly or beyond the header, and change types nobody knows."""

from __future__ import annotations

import json
from io import BytesIO

import pytest
from fastavro import parse_schema, schemaless_reader

from sfcdc_assets.emulator.events.change_event_builder import UNKNOWN_CHANGE_TYPE
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg


def test_a_garbled_body_leaves_the_header_readable() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.GARBLED_BODY)
    record_id = watched.create()
    (event,) = watched.stored()
    schema = json.loads(watched.bus.schema_json(event.schema_id) or "")
    header = schemaless_reader(BytesIO(event.payload), parse_schema(schema["fields"][0]["type"]), None)
    assert isinstance(header, dict)
    assert (header["changeType"], header["recordIds"]) == ("CREATE", [record_id])
    with pytest.raises((EOFError, IndexError, ValueError, OverflowError)):
        watched.decoded(event)


def test_a_garbled_header_leaves_nothing_readable() -> None:
    watched = WatchedOrg()
    watched.faults.arm(Fault.GARBLED_HEADER)
    record_id = watched.create()
    (event,) = watched.stored()
    assert record_id.encode() not in event.payload
    with pytest.raises((EOFError, IndexError, ValueError, OverflowError)):
        watched.decoded(event)


def test_an_unknown_change_type_comes_in_a_schema_that_has_it() -> None:
    watched = WatchedOrg()
    record_id = watched.create()
    (known,) = watched.events()
    watched.faults.arm(Fault.UNKNOWN_CHANGE_TYPE)
    watched.update(record_id, Phone="1")
    watched.update(record_id, Phone="2")
    unknown, later = watched.events()
    assert unknown.header["changeType"] == UNKNOWN_CHANGE_TYPE
    assert unknown.body["Phone"] == "1"
    assert unknown.stored.schema_id != known.stored.schema_id
    assert later.stored.schema_id == known.stored.schema_id
