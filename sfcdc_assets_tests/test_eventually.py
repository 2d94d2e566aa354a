"""Waiting for a condition: its value is returned, and one that does not come is named."""

from __future__ import annotations

import pytest

from sfcdc_assets_tests.eventually import eventually


def test_the_first_true_value_is_returned() -> None:
    values = iter([0, "", (), "found", "later"])
    assert eventually(lambda: next(values), "a value") == "found"


def test_a_condition_that_does_not_come_is_named_as_it_is_at_the_end() -> None:
    looks: list[bool] = []
    with pytest.raises(AssertionError, match="waited 0 s for the end"):
        eventually(lambda: False, "the end", seconds=0.0)
    with pytest.raises(AssertionError, match="for 1 looks"):
        eventually(lambda: looks.append(True), lambda: f"{len(looks)} looks", seconds=-1.0)
