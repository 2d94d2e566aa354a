"""The hash of rows: the same in any order and in any parts, another one after any change; and as it is specified."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from hashlib import sha256, shake_256
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.lake.certificates.row_hash import NotHashable, RowsHash, hash_rows

SCHEMA = pa.schema(
    [
        ("Id", pa.string()),
        ("count", pa.int32()),
        ("amount", pa.float64()),
        ("is_open", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("bytes", pa.binary()),
        ("names", pa.list_(pa.string())),
    ]
)
times = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda each: each.replace(tzinfo=UTC))
rows = st.fixed_dictionaries(
    {
        "Id": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        "count": st.none() | st.integers(-(2**31), 2**31 - 1),
        "amount": st.none() | st.floats(allow_nan=False),
        "is_open": st.none() | st.booleans(),
        "day": st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        "at": st.none() | times,
        "bytes": st.none() | st.binary(max_size=4),
        "names": st.none()
        | st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3),
    }
)


def hashed(*parts: list[dict[str, Any]]) -> RowsHash:
    return hash_rows(pa.Table.from_pylist(part, SCHEMA) for part in parts)


@given(st.lists(rows, max_size=6), st.randoms(), st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_any_order_and_any_parts_have_one_hash(found: list[dict[str, Any]], random: Any, at: int) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    assert hashed(found) == hashed(shuffled[:at], shuffled[at:]) == hashed(shuffled[:at]) + hashed(shuffled[at:])


@given(st.lists(rows, min_size=1, max_size=4), rows, st.sampled_from(SCHEMA.names))
@settings(max_examples=100, deadline=None)
def test_any_change_of_a_value_and_any_row_more_or_less_is_seen(
    found: list[dict[str, Any]], other: dict[str, Any], column: str
) -> None:
    before = hashed(found).digest
    changed = {**found[0], column: other[column]}
    is_same = changed[column] == found[0][column]  # 0.0 is -0.0
    assert (hashed([changed, *found[1:]]).digest == before) is is_same
    assert hashed([*found, found[0]]).digest != before
    assert hashed(found[1:]).digest != before


def test_a_null_is_no_value_and_values_do_not_run_into_one_another() -> None:
    nothing: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    different = [
        nothing,
        {**nothing, "Id": ""},
        {**nothing, "names": []},
        {**nothing, "names": [None]},
        {**nothing, "names": [""]},
        {**nothing, "names": ["ab"]},
        {**nothing, "names": ["a", "b"]},
        {**nothing, "count": 0},
        {**nothing, "amount": 0.0},
        {**nothing, "is_open": False},
    ]
    assert len({hashed([each]).digest for each in different}) == len(different)
    assert hashed([{**nothing, "amount": -0.0}]) == hashed([{**nothing, "amount": 0.0}])
    assert hashed([{**nothing, "amount": float("nan")}]) != hashed([nothing])


def test_it_is_what_the_page_specifies() -> None:
    def field(content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + content

    row = {
        "Id": "003é",
        "count": -7,
        "amount": 0.1,
        "is_open": True,
        "day": date(1970, 1, 3),
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "bytes": b"\x00",
        "names": ["a", None],
    }
    written = b"".join(
        field(name.encode()) + field(value)
        for name, value in [
            ("Id", b"s003\xc3\xa9"),
            ("amount", b"d" + struct.pack(">d", 0.1)),
            ("at", b"t1000000"),
            ("bytes", b"x\x00"),
            ("count", b"i-7"),
            ("day", b"D2"),
            ("is_open", b"b1"),
            ("names", b"l" + field(b"sa") + field(b"n")),
        ]
    )
    twice = 2 * int.from_bytes(shake_256(written).digest(256), "big") % 2**2048
    assert hashed([row, row]) == RowsHash(2, twice)
    assert hashed([row, row]).digest == sha256(twice.to_bytes(256, "big")).hexdigest()


def test_a_type_that_has_no_hash_is_named() -> None:
    with pytest.raises(NotHashable, match="where"):
        hash_rows([pa.table({"where": pa.array([{"a": 1}])})])
