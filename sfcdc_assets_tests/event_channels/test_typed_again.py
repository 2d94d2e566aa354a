"""Rows that are typed again are those that would land now."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.field_types import FieldType
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns, table_schema
from sfcdc_assets.event_channels.generic_event import GenericReader
from sfcdc_assets.event_channels.payload_schema import PayloadColumn, PayloadSchema
from sfcdc_assets.event_channels.typed_again import typed_again
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets_tests.examples import examples

CHANNEL = "/u/Orders"
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), st.sampled_from(["", "x", "Zürich"]))
PAYLOADS = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.one_of(VALUES, st.dictionaries(st.just("d"), VALUES))),
    st.sampled_from(["", "no JSON", "[1]"]),
)
TYPES = st.sampled_from(
    [
        FieldType("string"),
        FieldType("boolean", ColumnType.BOOLEAN, ("Boolean",)),
        FieldType("int", ColumnType.INT, ("Integer",)),
        FieldType("double", ColumnType.DOUBLE, ("Double",)),
    ]
)
PATHS = {"a": ("a",), "b": ("b",), "c": ("c", "d")}


def landed(reader: GenericReader, payloads: Sequence[object]) -> pa.Table:
    """The rows of events that land one after the other in a table that grows."""
    schema, parts = table_schema(reader.own_columns), []
    for number, payload in enumerate(payloads, 1):
        text = payload if isinstance(payload, str) else json.dumps(payload)
        about = {"createdDate": "2026-11-20T10:00:00.000Z", "replayId": number}
        message = json.dumps({"event": about, "payload": text}).encode()
        event = DeliveredEvent(f"{number:032x}", "", message, str(number).encode(), 1_700_000_000_000 + number)
        typed = [reader.read(event)]
        schema = pa.schema([*schema, *missing_columns(schema, typed)])
        parts.append(event_rows(CHANNEL, number, [event], typed, schema))
    return pa.concat_tables(parts, promote_options="default").select(schema.names)


@settings(max_examples=examples(0.4), deadline=None)
@given(
    payloads=st.lists(PAYLOADS, min_size=1, max_size=8),
    types=st.lists(TYPES, min_size=3, max_size=3),
    known=st.integers(0, 3),
)
def test_rows_from_before_columns_were_described_become_those_that_would_land_now(
    payloads: Sequence[object], types: Sequence[FieldType], known: int
) -> None:
    columns = tuple(PayloadColumn(name, type_, PATHS[name]) for name, type_ in zip("abc", types, strict=True))
    before = PayloadSchema(CHANNEL, columns[:known]) if known else None
    now = GenericReader("Orders", PayloadSchema(CHANNEL, columns), Privacy())
    rows = landed(GenericReader("Orders", before, Privacy()), payloads)
    again = typed_again(CHANNEL, now, rows)
    wanted = landed(now, payloads)
    assert again.select(wanted.schema.names).to_pylist() == wanted.to_pylist()
    assert set(again.schema.names) == set(wanted.schema.names)
    assert typed_again(CHANNEL, now, again).to_pylist() == again.to_pylist()
