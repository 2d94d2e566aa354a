"""Payloads decoded many at once: each says what the reference, which reads one event with fastavro, says of it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfcdc_assets.change_events import Column, ColumnType, columns
from sfcdc_assets.change_events.batch import body_values
from sfcdc_assets.change_events.batch.decoder import BatchDecoder, batch_decoder
from sfcdc_assets.change_events.hash_key import HashKey
from sfcdc_assets.timeline import decoded_events
from sfcdc_assets.timeline.changes import ChangeReader
from sfcdc_assets_tests.change_events.written_event import (
    TEXTS,
    bitmap_of,
    event_schema,
    header,
    optional,
    payload,
    record,
    texts,
)
from sfcdc_assets_tests.examples import examples

PARTS = record("Address", *texts("Street", "City"), optional("Latitude", "double"), optional("Checked", "boolean"))
SWITCHABLE = record("Switchable_PersonName", *texts("FirstName", "LastName"))
SHAPES: dict[str, tuple[list[Any], str | None]] = {
    "text": (["string"], "Data:Text"),
    "reference": (["string"], "ForeignKey:EntityId"),
    "number": (["double"], "Data:Currency"),
    "single": (["float"], None),
    "int": (["int"], "Data:Integer"),
    "plain long": (["long"], None),
    "datetime": (["long"], "Data:DateTime"),
    "date": (["long"], "Data:DateOnly"),
    "time": (["long"], "Data:TimeOnly"),
    "boolean": (["boolean"], "Data:Boolean"),
    "large": (["string"], "Data:StringPlusClob"),
    "list": ([TEXTS], "Data:BitVector"),
    "compound": (["Address"], "Data:Address"),
    "switchable": (["string", "Switchable_PersonName"], "Data:Switchable_PersonName"),
}
FINITE = st.floats(allow_nan=False, allow_infinity=False)
LONGS = st.one_of(
    st.integers(-(2**62), 2**62), st.integers(-10, 200), st.integers(0, 4_000_000_000_000), st.just(86_400_000)
)
WORDS = st.one_of(
    st.text(max_size=70).filter(lambda text: max(text, default="a") <= "\ud7ff" or text.isprintable()),
    st.sampled_from(["", "001Dp00000JJkkH", "001Dp00000JJkkHIAT", "é" * 9, "é" * 3 + "A" * 12, "日本" * 200]),
)
ADDRESSES = st.fixed_dictionaries(
    {
        "Street": st.none() | WORDS,
        "City": st.none() | WORDS,
        "Latitude": st.none() | FINITE,
        "Checked": st.none() | st.booleans(),
    }
)
NAMES = st.fixed_dictionaries({"FirstName": st.none() | WORDS, "LastName": st.none() | WORDS})
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("text", "reference", "large"), WORDS),
    **dict.fromkeys(("plain long", "datetime", "date", "time"), LONGS),
    "number": FINITE,
    "single": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "int": st.integers(-(2**31), 2**31 - 1),
    "boolean": st.booleans(),
    "list": st.lists(st.sampled_from(["A", "B"])),
    "compound": ADDRESSES,
    "switchable": WORDS | NAMES,
}
CHANGE_TYPES = st.sampled_from(["UPDATE"] * 6 + ["CREATE", "CREATE", "DELETE", "UNDELETE", "GAP_UPDATE", "SNAPSHOT"])


def schema_of(shapes: list[str]) -> dict[str, Any]:
    fields = []
    records = {"Address": PARTS, "Switchable_PersonName": SWITCHABLE}
    for number, shape in enumerate(shapes):
        types, doc = SHAPES[shape]
        # A record is defined where it stands first, and named by its name from then on.
        types = [records.pop(each, each) if isinstance(each, str) else each for each in types]
        fields.append(optional(f"F{number}Address" if shape == "compound" else f"F{number}", *types, doc=doc))
    return event_schema(*fields)


def paths_of(schema: dict[str, Any], shapes: list[str]) -> list[str]:
    children = {"compound": ["Street", "City", "Latitude", "Checked"], "switchable": ["FirstName", "LastName"]}
    names = [field["name"] for field in schema["fields"][1:]]
    return [
        path
        for name, shape in zip(names, shapes, strict=True)
        for path in (name, *(f"{name}.{child}" for child in children.get(shape, ())))
    ]


@st.composite
def batches(draw: st.DrawFn) -> tuple[dict[str, Any], list[Column], list[bytes]]:
    """A schema, the columns wanted of it, and payloads, some of them damaged."""
    shapes = draw(st.lists(st.sampled_from(list(SHAPES)), min_size=1, max_size=12))
    shapes += ["text"] * draw(st.sampled_from([0, 0, 3, 70, 200]))
    schema = schema_of(shapes)
    names = [field["name"] for field in schema["fields"][1:]]
    every = columns(schema)
    kept = draw(st.sets(st.integers(1, max(1, len(every) - 1)), max_size=3)) if draw(st.booleans()) else set()
    wanted = [column for number, column in enumerate(every) if number not in kept]
    if draw(st.booleans()):
        wanted = wanted[:1] + wanted[:0:-1]
    if draw(st.booleans()):
        number = draw(st.integers(0, len(wanted) - 1))
        change = draw(st.sampled_from(["hash", ColumnType.STRING, ColumnType.DOUBLE, ColumnType.INT]))
        column = wanted[number]
        wanted[number] = (
            column.hashed(HashKey.of("k")) if change == "hash" else Column(column.name, change, column.large_text)
        )
    paths = paths_of(schema, shapes)
    some_paths = st.lists(st.sampled_from(paths), max_size=4, unique=True)
    payloads = []
    for _ in range(draw(st.integers(1, 12))):
        body: dict[str, Any] = {}
        for number in draw(st.sets(st.integers(0, len(names) - 1), max_size=6)):
            body[names[number]] = draw(VALUES[shapes[number]])
        changed = draw(some_paths) + [name for name in body if draw(st.booleans())]
        head = header(
            draw(CHANGE_TYPES),
            recordIds=draw(st.lists(st.sampled_from(["001A", "001*", "000000000000000AAA", "é"]), max_size=3)),
            changedFields=_bitmap(draw, schema, changed),
            nulledFields=_bitmap(draw, schema, draw(some_paths) if draw(st.booleans()) else []),
            diffFields=_bitmap(draw, schema, draw(some_paths) if draw(st.booleans()) else []),
            commitTimestamp=draw(st.sampled_from([0, 253_402_300_800_000, -1, *[1_690_000_000_000] * 20])),
        )
        payloads.append(_damaged(draw, payload(schema, head, body)))
    return schema, wanted, payloads


def _bitmap(draw: st.DrawFn, schema: dict[str, Any], paths: list[str]) -> list[str]:
    elements = bitmap_of(schema, *paths)
    if draw(st.integers(0, 9)) == 7:
        elements.append(
            draw(st.sampled_from(["0x", "", "0x0", "0X00001", "0xG1", "1-0x01", "2-0xFF", "0x" + "F" * 80]))
        )
    return elements[::-1] if draw(st.booleans()) else elements


def _damaged(draw: st.DrawFn, written: bytes) -> bytes:
    damage = draw(st.sampled_from(["none"] * 9 + ["byte", "byte", "cut", "more"]))
    if damage == "byte":
        place = draw(st.integers(0, len(written) - 1))
        return written[:place] + bytes([draw(st.integers(0, 255))]) + written[place + 1 :]
    if damage == "cut":
        return written[: draw(st.integers(0, len(written) - 1))]
    return written + draw(st.binary(min_size=1, max_size=9)) if damage == "more" else written


def rows_of(payloads: list[bytes | None]) -> pa.Table:
    count = len(payloads)
    return pa.table(
        {
            "channel": ["c"] * count,
            "position": list(range(1, count + 1)),
            "schema_id": ["schema"] * count,
            "payload": pa.array(payloads, pa.binary()),
            "record_ids": [["001A"], ["001B", "001*"], []] * (count // 3) + [["001A"]] * (count % 3),
            "change_type": ["UPDATE"] * count,
            "commit_timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "commit_user": ["u"] * count,
            "change_origin": ["o"] * count,
            "transaction_key": ["t"] * count,
        }
    )


def read(monkeypatch: pytest.MonkeyPatch, at_least: int, reader: ChangeReader, rows: pa.Table) -> pa.RecordBatch:
    with monkeypatch.context() as patched:
        patched.setattr(decoded_events, "FEWEST_AT_ONCE", at_least)
        patched.setattr(decoded_events, "FIELDS_AT_ONCE", 0)
        patched.setattr(body_values, "FEWEST_ROUNDS", 1_000)
        return reader.read(rows)


@settings(max_examples=examples(2), deadline=None)
@given(batches())
def test_many_payloads_say_what_each_says(batch: tuple[dict[str, Any], list[Column], list[bytes]]) -> None:
    schema, wanted, payloads = batch
    reader = ChangeReader({"schema": json.dumps(schema)}, wanted)
    rows = rows_of([*payloads, None] if len(payloads) % 2 else list(payloads))
    with pytest.MonkeyPatch.context() as patch:
        one_by_one = read(patch, 10_000, reader, rows)
        at_once = read(patch, 1, reader, rows)
    at_once.validate(full=True)
    for name in at_once.schema.names:
        assert repr(at_once[name].to_pylist()) == repr(one_by_one[name].to_pylist()), name


def taken(schema: dict[str, Any], payloads: list[bytes]) -> list[bool]:
    return BatchDecoder(json.dumps(schema), columns(schema)).decode(pa.array(payloads, pa.binary())).taken.tolist()


PLAIN = schema_of([shape for shape in SHAPES if shape not in ("list", "switchable")] + ["text"] * 200)


@settings(max_examples=examples(1), deadline=None)
@given(st.data())
def test_a_plain_event_is_read_with_the_others(data: st.DataObject) -> None:
    shapes = [shape for shape in SHAPES if shape not in ("list", "switchable")]
    body = {
        f"F{number}Address" if shape == "compound" else f"F{number}": data.draw(VALUES[shape])
        for number, shape in enumerate(shapes)
        if shape not in ("date", "datetime", "time", "plain long")
    }
    paths = data.draw(st.sets(st.sampled_from([*body, "F12Address.City", "F200"]), max_size=5))
    paths = {path for path in paths if path.partition(".")[0] in [field["name"] for field in PLAIN["fields"]]}
    update = payload(PLAIN, header(changedFields=bitmap_of(PLAIN, *paths)), body)
    assert taken(PLAIN, [update, payload(PLAIN, header("DELETE")), payload(PLAIN, header("CREATE"), {})]) == [True] * 3


def test_a_damaged_event_is_left_out_and_those_beside_it_are_read() -> None:
    good = payload(PLAIN, header("CREATE"), {"F0": "Köln"})
    assert taken(PLAIN, [good, good[:-1], good, good + b"\0", b"", good, good.replace("ö".encode(), b"\xc3\xc3")]) == [
        True, False, True, False, False, True, False,
    ]  # fmt: skip


def test_a_list_of_checkboxes_and_the_name_of_a_person_are_left_out() -> None:
    schema = schema_of(["text", "list", "switchable"])
    bodies = [{"F0": "a"}, {"F1": ["A"]}, {"F2": "a business"}, {"F2": {"FirstName": "Ada", "LastName": "L"}}]
    head = header(changedFields=bitmap_of(schema, "F0", "F2"))
    assert taken(schema, [payload(schema, head, body) for body in bodies]) == [True, False, True, False]


def test_few_events_that_are_fuller_than_the_others_are_left_out() -> None:
    full = payload(PLAIN, header("CREATE"), {f"F{number}": "text" for number in range(20, 120)})
    sparse = payload(PLAIN, header(), {"F20": "a"})
    assert taken(PLAIN, [full, *[sparse] * 20, full]) == [False, *[True] * 20, False]
    assert all(taken(PLAIN, [full] * 100))


@pytest.mark.parametrize(
    "types", [["bytes"], ["int", "string"], [{"type": "long", "logicalType": "timestamp-millis"}], [record("Empty")]]
)
def test_a_schema_with_a_type_no_event_has_today_is_read_event_by_event(types: list[Any]) -> None:
    schema = event_schema(optional("F", *types))
    assert batch_decoder(json.dumps(schema), columns(schema)) is None
    required = event_schema({"name": "F", "type": "string"})
    assert batch_decoder(json.dumps(required), columns(required)) is None


def test_large_payloads_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(["text", "large"])
    payloads = [payload(schema, header("CREATE"), {"F1": "x" * 1000 * number}) for number in range(40)]
    reader, rows = ChangeReader({"schema": json.dumps(schema)}, columns(schema)), rows_of(list(payloads))
    whole = reader.read(rows)
    monkeypatch.setattr(decoded_events, "FIELDS_AT_ONCE", 0)
    monkeypatch.setattr(decoded_events, "BYTES_AT_ONCE", 5_000)
    assert reader.read(rows).equals(whole)


def test_events_of_several_schemas_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_events, "FIELDS_AT_ONCE", 0)
    monkeypatch.setattr(decoded_events, "FEWEST_AT_ONCE", 16)
    schemas = {"a": schema_of(["text", "int"]), "b": schema_of(["int", "text", "text"])}
    table = rows_of(
        [
            payload(schemas["ab"[n % 2]], header("CREATE"), {"F0": n % 2 or "n", "F1": 5 if n % 2 == 0 else "m"})
            for n in range(60)
        ]
    )
    table = table.set_column(2, "schema_id", pa.array([*"ab" * 29, "unknown", "unknown"]))
    wanted = (Column("Id", ColumnType.STRING), Column("F0", ColumnType.STRING), Column("F2", ColumnType.STRING))
    changes = ChangeReader({name: json.dumps(schema) for name, schema in schemas.items()}, wanted).read(table)
    assert changes["position"].to_pylist() == sorted(changes["position"].to_pylist())
    errors = {
        position
        for position, error in zip(*map(pa.Array.to_pylist, (changes["position"], changes["error"])), strict=True)
        if error
    }
    assert errors == {59, 60} & set(changes["position"].to_pylist())
