from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.emulator.org.ids import BASE62, EMPTY_ID, id_suffix, is_id, new_id, new_ids, to_15, to_18

ID15 = st.text(BASE62, min_size=15, max_size=15)


@pytest.mark.parametrize(
    ("id15", "suffix"),
    [
        ("001Dp00000JJkkH", "IAT"),
        ("005Dp000000Ppjs", "IAC"),
        ("0012F00000ic4TZ", "QAY"),
        ("000000000000000", "AAA"),
    ],
)
def test_suffixes_are_those_of_real_orgs(id15: str, suffix: str) -> None:
    assert id_suffix(id15) == suffix
    assert to_18(id15) == id15 + suffix


@given(ID15)
def test_the_two_forms_of_an_id_are_each_others_inverse(id15: str) -> None:
    assert to_15(to_18(id15)) == id15
    assert to_18(to_18(id15)) == to_18(id15)


@given(ID15)
def test_an_18_character_id_that_lost_its_case_is_repaired(id15: str) -> None:
    id18 = to_18(id15)
    assert to_18(id18.lower()) == id18
    assert to_18(id18.upper()) == id18


@given(st.integers(0, 62**6), st.integers(0, 62**6))
def test_ids_grow_with_creation(one: int, other: int) -> None:
    ids = [new_id("001", "Aa0", number) for number in (one, other)]
    assert (ids[0] < ids[1]) == (one < other)
    assert all(len(record_id) == 18 and to_18(record_id[:15]) == record_id for record_id in ids)


@given(st.integers(0, 62**6), st.integers(0, 9_000))
def test_ids_made_in_a_row_are_those_made_one_by_one(first: int, count: int) -> None:
    assert new_ids("0Q1", "xY0", first, count) == [new_id("0Q1", "xY0", first + number) for number in range(count)]


@pytest.mark.parametrize("text", ["", "001", "001Dp00000JJkk-", "001Dp00000JJkkHI", "001Dp00000JJkkHIA!", "é" * 15])
def test_other_text_is_not_an_id(text: str) -> None:
    assert not is_id(text)


def test_the_empty_id_of_an_overflow_event_is_15_zeros_and_its_suffix() -> None:
    assert to_18("0" * 15) == EMPTY_ID
