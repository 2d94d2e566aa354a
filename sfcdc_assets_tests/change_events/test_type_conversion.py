"""Values of one type as another: all that they say, or refused."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.type_conversion import convert, widens

LAST_DAY = 2_932_896  # 9999-12-31
VALUES = {
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.INT: st.integers(-(2**31), 2**31 - 1),
    ColumnType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ColumnType.DATE: st.integers(-719_162, LAST_DAY),
    ColumnType.TIMESTAMP: st.integers(-719_162 * 86_400_000, LAST_DAY * 86_400_000).map(lambda ms: ms * 1000),
    ColumnType.STRING: st.text(min_size=1),
}
TYPES = st.sampled_from(list(ColumnType))


@st.composite
def values_and_types(draw):
    old = draw(TYPES)
    return draw(VALUES[old]), old, draw(TYPES)


@given(values_and_types())
def test_a_widening_takes_every_value(given_value):
    value, old, new = given_value
    if widens(old, new):
        convert(value, old, new)


@given(values_and_types())
def test_what_converts_says_the_same_when_it_comes_back(given_value):
    value, old, new = given_value
    if ColumnType.STRING in (old, new) and old is ColumnType.STRING:
        return  # "1.50" and 1.5 say the same in other letters
    try:
        converted = convert(value, old, new)
    except ValueError:
        return
    assert convert(converted, new, old) == value


@given(values_and_types())
def test_a_conversion_gives_a_value_of_the_new_type_or_is_refused(given_value):
    value, old, new = given_value
    kinds = {ColumnType.STRING: str, ColumnType.DOUBLE: float, ColumnType.BOOLEAN: bool}
    try:
        converted = convert(value, old, new)
    except ValueError:
        return
    assert type(converted) is kinds.get(new, int)


@pytest.mark.parametrize("text", ["nan", "inf", "1_000", "0x10", "", "12,5", "٣"])
def test_what_only_looks_like_a_number_to_python_is_none(text):
    with pytest.raises(ValueError):
        convert(text, ColumnType.STRING, ColumnType.DOUBLE)


def test_null_is_null_in_every_type():
    assert {convert(None, old, new) for old in ColumnType for new in ColumnType} == {None}


def test_a_time_of_day_is_not_cut_off():
    assert convert(86_400_000_000, ColumnType.TIMESTAMP, ColumnType.DATE) == 1
    with pytest.raises(ValueError, match="time of day"):
        convert(1, ColumnType.TIMESTAMP, ColumnType.DATE)
