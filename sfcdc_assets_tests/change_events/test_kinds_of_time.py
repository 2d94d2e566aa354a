"""Types that have the same form in an event: a value that is read as the wrong one of them is what it was, or known to
be of no certain type."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events.cell_value import DAY_MS, converter
from sfcdc_assets.change_events.change_event import ChangeEventHeader, DecodedEvent
from sfcdc_assets.change_events.change_type import ChangeType
from sfcdc_assets.change_events.columns import ID_COLUMN, Column, TypeBefore
from sfcdc_assets.change_events.event_schema import SchemaField
from sfcdc_assets.change_events.field_types import field_type
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.change_events.kinds_of_time import is_of_another_kind_too
from sfcdc_assets.change_events.retyping import Retyping
from sfcdc_assets.change_events.type_conversion import convert
from sfcdc_assets_tests.examples import examples

DOCS = {
    "long": {"date": "DateOnly", "datetime": "DateTime", "time": "TimeOnly"},
    "double": {"double": "Double", "currency": "Currency", "percent": "Percent"},
    "string": {
        "string": "Text",
        "textarea": "MultiLineText",
        "picklist": "DynamicEnum",
        "multipicklist": "MultiEnum",
        "phone": "Phone",
        "email": "Email",
        "url": "Url",
        "encryptedstring": "EncryptedText",
        "reference": "EntityId",
    },
}
"""Avro type -> the types of fields that events have so, each with its doc."""
PAIRS = [(scalar, *pair) for scalar, types in DOCS.items() for pair in permutations(types, 2)]
SENT: dict[str, st.SearchStrategy[Any]] = {
    "long": st.sampled_from([0, 1, DAY_MS - 1, DAY_MS, -DAY_MS, 20_000 * DAY_MS])
    | st.integers(-DAY_MS, 2 * DAY_MS)
    | st.integers(-100, 40_000).map(lambda days: days * DAY_MS)
    | st.integers(-(10**13), 10**14),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    # Events have references in 18 characters.
    "string": st.sampled_from(["001Dp00000JJkkHIAT", "", "true", "12", "a;b"]) | st.text(max_size=10),
}
KEY = HashKey("k", b"secret" * 6)


def column_of(kind: str) -> Column:
    return Column("F__c", field_type(kind).column, salesforce_type=kind)


def read(kind: str, scalar: str, doc: str, value: Any) -> Any:
    """The cell of a value in a column of the type. Raises ValueError for one that is none."""
    return converter(SchemaField(1, "F__c", doc, scalar, None), column_of(kind))(value)


@settings(max_examples=examples(4))
@given(st.sampled_from(PAIRS), st.data())
def test_a_value_read_as_another_type_of_its_form_is_the_same_or_refused_or_may_be_of_another_kind(
    pair: tuple[str, str, str], data: st.DataObject
) -> None:
    """Whichever of the two the schema's doc names: it is of no certain time."""
    scalar, written, taken = pair
    doc = data.draw(st.sampled_from(["", DOCS[scalar][written], DOCS[scalar][taken]]))
    value = data.draw(SENT[scalar])
    try:
        was = read(written, scalar, doc, value)
    except ValueError:
        return  # an org sends no such thing
    try:
        shown = read(taken, scalar, doc, value)
    except ValueError:
        return  # its record is read
    old, new = field_type(written).column, field_type(taken).column
    if not is_of_another_kind_too(column_of(taken), shown):
        assert shown == convert(was, old, new)


@pytest.mark.parametrize("pair", [pair for pair in permutations(DOCS["long"], 2) if {*pair} != {"date", "datetime"}])
def test_there_are_values_of_two_kinds_of_time_that_are_another_value_in_the_other_one(pair: tuple[str, str]) -> None:
    was, shown = (read(kind, "long", "", 0) for kind in pair)
    assert str(was) != str(shown)
    assert is_of_another_kind_too(column_of(pair[1]), shown)


def test_a_standard_field_keeps_its_type_and_a_hash_hides_which_value_it_is() -> None:
    moment = column_of("datetime")
    assert is_of_another_kind_too(moment, 1_000)
    assert not is_of_another_kind_too(replace(moment, name="CreatedDate"), 1_000)
    assert not is_of_another_kind_too(moment, DAY_MS * 1_000)
    assert is_of_another_kind_too(moment.hashed(KEY), KEY.digest("2024-01-02T03:04:05.000Z"))
    assert not is_of_another_kind_too(moment.hashed(KEY), None), "null is null in any type"


HEADER = ChangeEventHeader("X", ("x",), ChangeType.UPDATE, "", "t", 1, 0, 0, "u")
TEN = "10:00:00.000"


def left_open(column: Column, position: int, *, waits: bool) -> DecodedEvent:
    """An event that sets a column to ten o'clock there."""
    retyping = Retyping((ID_COLUMN, column), position, {1: SchemaField(1, "F__c", "", "long", None)})
    value = converter(SchemaField(1, "F__c", "", "long", None), retyping.columns[1])(10 * DAY_MS // 24)
    return retyping.today(retyping.left_open(DecodedEvent(HEADER, [(1, value)], frozenset()), waits=waits))


def test_an_event_that_waits_for_a_copy_proves_no_time_and_one_that_may_be_late_only_where_the_field_was_another() -> (
    None
):
    always = column_of("time")
    once = replace(always, types_before=(TypeBefore(19, field_type("datetime").column, "datetime"),))
    found = left_open(always, 20, waits=True)
    assert (found.cells, [*found.unproven], found.missing) == ([(1, TEN)], [1], None)
    found = left_open(always, 20, waits=False)
    assert (found.unproven, found.missing) == (frozenset(), None)
    found = left_open(once, 20, waits=False)
    assert (found.cells, [*found.unproven]) == ([(1, TEN)], [1])
    assert (found.missing or "").startswith("F__c: ")
    found = left_open(once, 18, waits=False)
    assert (found.unproven, found.missing) == (frozenset(), None), "it was to become another later"
