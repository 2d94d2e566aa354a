"""Values of REST's JSON as their columns have them."""

from __future__ import annotations

from typing import Any

import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.rest.csv_form import cells
from sfcdc_assets.timeline.rest_rows import rest_array

_HISTORY = next(each for each in whole_org() if each.name == "AccountHistory")
ANY = Column("NewValue", ColumnType.STRING, salesforce_type="anyType")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (12345678.0, "1.2345678E7"), (0.0001, "1.0E-4"), (-0.5, "-0.5"), (7, "7"), ("2.0", "2.0")],
)
def test_a_number_of_any_type_is_written_as_bulk_api_writes_it_so_that_both_ways_give_one_value(
    value: Any, text: str
) -> None:
    assert rest_array(ANY, [value, None], "the org").to_pylist() == [text, None]
    field = next(each for each in _HISTORY.fields if each.name == "NewValue")
    assert cells(field, [value]) == [text]


def test_a_checkbox_of_any_type_and_a_number_in_a_text_are_written_as_before() -> None:
    assert rest_array(ANY, [True], "the org").to_pylist() == ["true"]
    plain = Column("Name", ColumnType.STRING)
    assert rest_array(plain, [3233.0], "the org").to_pylist() == ["3233"]
