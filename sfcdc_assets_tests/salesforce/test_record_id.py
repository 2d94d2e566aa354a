"""Ids of 18 characters."""

from __future__ import annotations

import pytest

from sfcdc_assets.salesforce.record_id import to_18_characters


@pytest.mark.parametrize(
    ("short", "suffix"),
    [("001Dp00000JJkkH", "IAT"), ("005Dp000000Ppjs", "IAC"), ("0012F00000ic4TZ", "QAY"), ("0" * 15, "AAA")],
)
def test_the_suffix_tells_the_case(short: str, suffix: str) -> None:
    assert to_18_characters(short) == short + suffix
    assert to_18_characters(short + suffix) == short + suffix
