"""Typed events become rows: columns grow and never change, and nothing of an event is lost."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.event_channels.event_rows import column_of, event_rows, missing_columns, table_schema
from sfcdc_assets.event_channels.generic_event import GenericReader
from sfcdc_assets.event_channels.payload_schema import PayloadColumn, PayloadSchema
from sfcdc_assets.event_channels.typed_event import TypedEvent
from sfcdc_assets.runtime.foreign_text import unicode_text
from sfcdc_assets.streams.cometd.subscription import delivered_event
from sfcdc_assets.streams.delivered_event import DeliveredEvent

OWN = pa.schema([("event_type", pa.string())])
VALUES = {
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ColumnType.DATE: st.integers(-700_000, 2_900_000),
    ColumnType.TIMESTAMP: st.integers(-(10**14), 10**14),
    ColumnType.STRING: st.text(max_size=5),
}


def delivered(number: int) -> DeliveredEvent:
    return DeliveredEvent(f"e{number}", "", b"{}", str(number).encode(), number)


def landed(*typed: TypedEvent) -> pa.Table:
    """The events one after another, each as a batch of its own, into a table that grows."""
    schema, tables = table_schema(OWN), []
    for number, each in enumerate(typed, 1):
        schema = pa.schema([*schema, *missing_columns(schema, [each])])
        tables.append(event_rows("/u/x", number, [delivered(number)], [each], schema))
    return pa.concat_tables(tables, promote_options="default")


def of(name: str, column_type: ColumnType, value: CellValue) -> TypedEvent:
    return TypedEvent(values={Column(name, column_type): value})


def test_a_field_whose_type_was_changed_goes_on_in_a_column_beside_the_old_one() -> None:
    table = landed(
        of("Amount__c", ColumnType.DOUBLE, 1.5),
        of("Amount__c", ColumnType.INT, 2),  # every integer is a double
        of("Amount__c", ColumnType.STRING, "three"),
        of("Amount__c", ColumnType.DOUBLE, 4.5),
    )
    assert table["Amount__c"].to_pylist() == [1.5, 2.0, None, 4.5]
    assert table["Amount__c__string"].to_pylist() == [None, None, "three", None]


def test_a_column_of_texts_holds_the_values_of_every_later_type() -> None:
    table = landed(of("Code__c", ColumnType.STRING, "a"), of("Code__c", ColumnType.BOOLEAN, True))
    assert table["Code__c"].to_pylist() == ["a", "true"]


def test_a_field_that_is_called_as_a_column_of_ours_is_told_apart_whatever_its_case() -> None:
    table = landed(of("Position", ColumnType.INT, 7), of("EVENT_TYPE", ColumnType.STRING, "x"))
    assert table["Position__field"].to_pylist() == [7, None]
    assert table["EVENT_TYPE__field"].to_pylist() == [None, "x"]
    assert table["position"].to_pylist() == [1, 2]


def test_names_that_differ_by_case_share_a_column() -> None:
    table = landed(of("Code__c", ColumnType.STRING, "a"), of("code__C", ColumnType.STRING, "b"))
    assert table["Code__c"].to_pylist() == ["a", "b"]
    assert "code__C" not in table.column_names


def test_what_is_rescued_is_json_and_hidden_bytes_are_not_kept() -> None:
    table = landed(TypedEvent(rescued={"b": [1], "a": None}, problem="why"), TypedEvent(keeps_bytes=False))
    assert [json.loads(text) if text else None for text in table["_rescued_data"].to_pylist()] == [
        {"a": None, "b": [1]},
        None,
    ]
    assert table["_delivered"].to_pylist() == [b"{}", None]


HOSTILE = (
    '"half a pair \\ud800"',
    "[" * 1400 + "]" * 1400,
    '{"a": ' * 900 + "1" + "}" * 900,
    '{"amount": 1e999, "count": 99999999999999999999, "day": "0000-00-00", "at": "9999-12-31T23:59:59+23:59"}',
    '{"amount": NaN, "count": true, "text": {"a": [1]}, "day": 5, "at": "now", "more": "\\udfff"}',
    "\\u0000",
    "",
)
KINDS = {"amount": "double", "count": "int", "text": "string", "day": "date", "at": "datetime"}
SCHEMA = PayloadSchema("/u/X", tuple(PayloadColumn(name, field_type(kind), (name,)) for name, kind in KINDS.items()))


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["with", "without"])
def test_no_payload_keeps_a_channel_from_going_on(payload: str, schema: PayloadSchema | None) -> None:
    text = json.loads(payload) if payload.startswith('"') else payload
    message = {"data": {"event": {"createdDate": "2024-01-02T03:04:05.678Z", "replayId": 7}, "payload": text}}
    event = delivered_event({**message, "channel": "/u/X"}, 5)
    read = GenericReader("X", schema, NOTHING_PRIVATE).read(event)
    own = GenericReader.own_columns
    table_columns = pa.schema([*table_schema(own), *missing_columns(table_schema(own), [read])])
    (row,) = event_rows("/u/X", 1, [event], [read], table_columns).to_pylist()
    assert row["_delivered"] == event.payload
    assert row["payload"] == unicode_text(text)
    assert schema is None or row["_problem"]


@given(
    st.lists(
        st.sampled_from(list(ColumnType)).flatmap(
            lambda kind: st.tuples(st.sampled_from(["A__c", "B__c", "a__C"]), st.just(kind), VALUES[kind])
        ),
        max_size=12,
    )
)
def test_every_value_is_in_the_column_that_is_named_for_it_whatever_types_the_field_had(
    said: list[tuple[str, ColumnType, Any]],
) -> None:
    table = landed(*(of(name, kind, value) for name, kind, value in said)) if said else None
    for number, (name, kind, value) in enumerate(said):
        assert table is not None
        place = column_of(table.schema, Column(name, kind))
        found = table[place].cast(FORMS[_type_of(table.schema.field(place))].cell)[number].as_py()
        assert found is not None
        if FORMS[kind].arrow == table.schema.field(place).type:
            assert found == value
        elsewhere = [each for each in table.column_names if each.lower().startswith(name.lower()) and each != place]
        assert all(table[each][number].as_py() is None for each in elsewhere)


def _type_of(field: pa.Field) -> ColumnType:
    return next(kind for kind, forms in FORMS.items() if forms.arrow == field.type)
