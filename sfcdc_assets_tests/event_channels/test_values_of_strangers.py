"""No value that a publisher, a client or a person can write stops a channel, or makes its table unreadable.

Each column of each reader of events is given values at and beyond the limits of its type, in each form that a protocol
has; the table is then read by those who read such tables.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from sfcdc_assets.change_events.privacy import NOTHING_PRIVATE
from sfcdc_assets.change_events.raw_event_rows import land
from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns, table_schema
from sfcdc_assets.event_channels.generic_event import GenericReader
from sfcdc_assets.event_channels.payload_schema import payload_schemas
from sfcdc_assets.event_channels.platform_event import PlatformEventReader
from sfcdc_assets.event_channels.push_topic_event import PushTopicReader
from sfcdc_assets.event_channels.typed_event import EventReader, TypedEvent, read_event
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.settings.channel_kinds import table_of
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.cometd.subscription import delivered_event
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

NOW_MS = 1_700_000_000_000
YEAR_1, YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000
LONGS = [
    *(0, 1, -1, NOW_MS, NOW_MS * 1000, NOW_MS * 1_000_000, -NOW_MS * 1000),
    *(YEAR_1 - 1, YEAR_1, YEAR_1 + 1, YEAR_10000 - 1, YEAR_10000, 86_400_000, 86_399_999),
    *(2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
]
DOUBLES = [0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 2.0**63, 1e22]
TEXTS = ["", "a", "a\0b", "\U0001f600", "\u202e", "x" * 5000, "'; --", "\x1b]52;c;x\x07", "9999-12-31", "NaN", "{}"]
JSON_VALUES: list[Any] = [
    *(None, True, False, "half \ud83d", "\udfff", [], [1, "a"], {}, {"a": {"b": [None]}}, {"diff": "x"}),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999-23:59", "0000-00-00", "2024-02-30", "24:00:00.000Z"),
    *("2024-01-02T03:04:05.678Z", "2024-02-29", "23:59:59.999Z", "0001-01-01", "9999-12-31", "10000-01-01"),
    *(10**30, -(10**30), 1e400, 10**400),
    *LONGS,
    *DOUBLES,
    *TEXTS,
]
TYPES: dict[str, tuple[str, str, list[Any]]] = {
    "Flag__c": ("boolean", "Data:Boolean", [True, False]),
    "Count__c": ("int", "Data:Integer", [each for each in LONGS if -(2**31) <= each < 2**31]),
    "Size__c": ("double", "Data:Double", DOUBLES),
    "At__c": ("long", "Data:DateTime", LONGS),
    "Due__c": ("long", "Data:DateOnly", LONGS),
    "Time__c": ("long", "Data:TimeOnly", LONGS),
    "Long__c": ("long", "Data:Long", LONGS),
    "Text__c": ("string", "Data:Text", TEXTS),
    "Ref__c": ("string", "ForeignKey:EntityId", [*TEXTS, "001000000000001", "001000000000001AAA"]),
    "Bytes__c": ("bytes", "Data:Blob", [b"", b"\xff\x00"]),
}
PLATFORM = {
    "type": "record",
    "name": "Note__e",
    "namespace": "com.sforce.eventbus",
    "fields": [
        {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
        {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
        *(
            {"name": name, "type": ["null", avro], "doc": doc, "default": None}
            for name, (avro, doc, _) in TYPES.items()
        ),
    ],
}
AVRO = fastavro.parse_schema(json.loads(json.dumps(PLATFORM)))
DESCRIBED = ObjectDescription.from_json(
    {
        "name": "Account",
        "fields": [
            {"name": f"F{number}__c", "type": kind, "length": 255}
            for number, kind in enumerate(
                ("string", "boolean", "int", "double", "currency", "date", "datetime", "time", "reference", "address")
            )
        ]
        + [{"name": "Part__c", "type": "string", "compoundFieldName": "F9__c"}],
    }
)
GENERIC_TYPES = ("boolean", "int", "double", "date", "timestamp", "string")


def avro(number: int, **values: Any) -> DeliveredEvent:
    empty = {"CreatedDate": NOW_MS, "CreatedById": "005000000000001AAA"} | dict.fromkeys(TYPES)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, AVRO, empty | values)
    return DeliveredEvent(f"id-{number}", "S", written.getvalue(), str(number).encode(), NOW_MS)


def message(number: int, channel: str, data: dict[str, Any]) -> DeliveredEvent:
    about = {"replayId": number, **data.get("event", {})}
    return delivered_event({"channel": channel, "data": {**data, "event": about}}, NOW_MS)


def platform_in_avro() -> Iterable[DeliveredEvent]:
    whole = {name: values for name, (_, _, values) in TYPES.items()} | {"CreatedDate": LONGS, "CreatedById": TEXTS}
    events = [avro(number, **{name: value}) for number, (name, value) in enumerate(_pairs(whole))]
    yield from events
    for cut in range(0, 40, 3):
        yield events[0]._replace(event_id=f"cut-{cut}", payload=events[0].payload[:cut])


def platform_in_json() -> Iterable[DeliveredEvent]:
    names = ["CreatedDate", "CreatedById", *TYPES, "Unknown__c", "no name", "Ä__c", "half\ud800"]
    for number, (name, value) in enumerate(_pairs(dict.fromkeys(names, JSON_VALUES))):
        payload = {"CreatedDate": "2024-01-02T03:04:05.678Z", "CreatedById": "005000000000001AAA", name: value}
        about = {"EventUuid": f"id\ud800-{number}"}
        yield message(number, "/event/Note__e", {"schema": "S", "event": about, "payload": payload})


def push_topic() -> Iterable[DeliveredEvent]:
    names = [*sorted(DESCRIBED.field_names), "Unknown__c", "no name", "half\ud800", "Id"]
    for number, (name, value) in enumerate(_pairs(dict.fromkeys(names, JSON_VALUES))):
        about = {"createdDate": "2024-01-02T03:04:05.678Z", "type": "updated"}
        yield message(number, "/topic/X", {"event": about, "sobject": {"Id": "001000000000001", name: value}})
    for number, (name, value) in enumerate(_pairs(dict.fromkeys(["createdDate", "type"], JSON_VALUES)), 10_000):
        yield message(number, "/topic/X", {"event": {name: value}, "sobject": {"Id": "001000000000001"}})
    for number, value in enumerate(JSON_VALUES, 20_000):
        yield message(number, "/topic/X", {"sobject": value})


def generic() -> Iterable[DeliveredEvent]:
    for number, (name, value) in enumerate(_pairs(dict.fromkeys([*GENERIC_TYPES, "more", "ha\ud800"], JSON_VALUES))):
        yield message(number, "/u/X", {"payload": json.dumps({name: value})})
        yield message(number + 10_000, "/u/X", {"payload": {name: value}})
    for number, value in enumerate(JSON_VALUES, 20_000):
        yield message(number, "/u/X", {"payload": value})
        yield message(number + 10_000, "/u/X", {"payload": "{}", "event": {"createdDate": value}})


def _pairs(of: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    return [(name, value) for name, values in of.items() for value in values]


def _generic_reader(folder: Path) -> GenericReader:
    columns = "\n".join(f'{kind} = "{kind}"' for kind in GENERIC_TYPES)
    (folder / "x.toml").write_text(f'channel = "/u/X"\n[columns]\n{columns}')
    return GenericReader("X", payload_schemas(folder)["/u/X"], NOTHING_PRIVATE)


def _platform_reader(folder: Path) -> PlatformEventReader:
    return PlatformEventReader({"S": json.dumps(PLATFORM)}.get, NOTHING_PRIVATE)


def _topic_reader(folder: Path) -> PushTopicReader:
    return PushTopicReader(lambda: DESCRIBED, NOTHING_PRIVATE)


KINDS: dict[str, tuple[str, Callable[[Path], EventReader], Callable[[], Iterable[DeliveredEvent]]]] = {
    "platform events in Avro": ("/event/Note__e", _platform_reader, platform_in_avro),
    "platform events in JSON": ("/event/Note__e", _platform_reader, platform_in_json),
    "a PushTopic": ("/topic/X", _topic_reader, push_topic),
    "a generic channel": ("/u/X", _generic_reader, generic),
}


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_stands_in_an_event_it_is_in_the_table_and_every_reader_can_read_that(
    kind: str, tmp_path: Path
) -> None:
    channel, reader_in, made = KINDS[kind]
    reader, events = reader_in(tmp_path), list(made())
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    table = EventTable.open_or_create(warehouse, channel, reader.own_columns)
    typed = [read_event(reader, event) for event in events]
    table.table.add_columns(missing_columns(table.table.schema, typed))
    table = EventTable.open_or_create(warehouse, channel, reader.own_columns)
    rows = event_rows(channel, 1, events, typed, table.table.schema)
    table.commit(rows, StreamCheckpoint(channel, len(events), len(events)))
    found = read_by_all(warehouse.uri(table_of(channel)))
    assert [row["position"] for row in found] == list(range(1, len(events) + 1))
    assert [row["_delivered"] for row in found] == [event.payload for event in events]
    assert not [row["_problem"] for row in found if "cannot be read" in (row["_problem"] or "") and "Avro" not in kind]
    assert not [row["_problem"] for row in found if "do not fit the table" in (row["_problem"] or "")]
    for row in found:
        if row["_rescued_data"]:
            json.loads(row["_rescued_data"], parse_constant=_no_number)
            assert row["_problem"]


@pytest.mark.parametrize("form", ["Avro", "JSON"])
def test_each_value_is_in_its_column_or_is_rescued_and_said(form: str, tmp_path: Path) -> None:
    """What is empty is null, as it is in the org."""
    reader, lost = _platform_reader(tmp_path), []
    of = {name: values if form == "Avro" else JSON_VALUES for name, (_, _, values) in TYPES.items()}
    of["CreatedDate"] = LONGS if form == "Avro" else JSON_VALUES
    for number, (name, value) in enumerate(_pairs(of)):
        data = {"schema": "S", "payload": {name: value}}
        event = avro(number, **{name: value}) if form == "Avro" else message(number, "/event/Note__e", data)
        typed = read_event(reader, event)
        held = [each for column, each in typed.values.items() if column.name == name]
        if held == [None] and name not in typed.rescued and value not in ("", b"", None):
            lost.append((name, value))
        assert bool(typed.rescued) == bool(typed.problem)
    assert not lost


def test_one_event_that_fits_no_column_keeps_none_of_the_others_from_the_table() -> None:
    events = [DeliveredEvent(f"e{number}", "", b"{}", b"%d" % number, NOW_MS) for number in range(9)]
    typed = [TypedEvent(NOW_MS, identity=str(number)) for number in range(9)]
    typed[4] = replace(typed[4], created_ms=2**63)
    rows = event_rows("/u/X", 1, events, typed, table_schema(pa.schema([]))).to_pylist()
    assert [row["position"] for row in rows] == list(range(1, 10))
    assert [row["_problem"] is not None for row in rows] == [number == 4 for number in range(9)]
    assert rows[4]["_delivered"] == b"{}"


def test_a_reader_that_fails_at_an_event_keeps_its_bytes() -> None:
    class Failing(GenericReader):
        def read(self, event: DeliveredEvent) -> TypedEvent:
            raise ZeroDivisionError("of ours")

    reader, event = Failing("X", None, NOTHING_PRIVATE), DeliveredEvent("e", "", b"{}", b"1", NOW_MS)
    read = read_event(reader, event)
    assert (read.problem, read.keeps_bytes) == ("the event cannot be read (ZeroDivisionError)", True)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.sampled_from([*TYPES, "CreatedDate", "X__c"]), VALUES), min_size=1, max_size=6))
def test_any_json_that_is_published_becomes_rows_that_python_can_read(said: list[tuple[str, Any]]) -> None:
    events = [
        message(number, "/event/Note__e", {"schema": "S", "payload": {name: value}})
        for number, (name, value) in enumerate(said)
    ]
    reader = PlatformEventReader({"S": json.dumps(PLATFORM)}.get, NOTHING_PRIVATE)
    typed = [read_event(reader, event) for event in events]
    schema = table_schema(reader.own_columns)
    rows = event_rows("/event/Note__e", 1, events, typed, pa.schema([*schema, *missing_columns(schema, typed)]))
    assert len(rows.to_pylist()) == len(said)


HEADER = {
    "entityName": "Account",
    "recordIds": ["001000000000001AAA"],
    "changeType": "UPDATE",
    "changeOrigin": "",
    "transactionKey": "00000000-0000-0000-0000-000000000000",
    "sequenceNumber": 1,
    "commitTimestamp": NOW_MS,
    "commitNumber": 1,
    "commitUser": "005000000000001AAA",
    "changedFields": ["Name"],
}


def headers_in_json() -> Iterable[DeliveredEvent]:
    for number, (name, value) in enumerate(_pairs({key: [*JSON_VALUES, [[1]], ["\ud800"]] for key in HEADER})):
        payload = {"ChangeEventHeader": {**HEADER, name: value}}
        yield message(number, "/data/ChangeEvents", {"schema": "S", "payload": payload})


def headers_in_avro() -> Iterable[DeliveredEvent]:
    texts, numbers = ("changeOrigin", "transactionKey", "commitUser"), ("sequenceNumber", "commitTimestamp")
    of = {key: [*TEXTS, b"\xff\xfe", b"\xed\xa0\xbd"] for key in ("entityName", *texts)}
    of |= dict.fromkeys([*numbers, "commitNumber"], LONGS) | {"recordIds": [[], *([each] for each in TEXTS)]}
    of |= {"changeType": LONGS}
    for number, (name, value) in enumerate(_pairs(of)):
        yield DeliveredEvent(
            f"e{number}", "", _header({**HEADER, "changeType": 1, name: value}), b"%d" % number, NOW_MS
        )


def _header(values: dict[str, Any]) -> bytes:
    """The record's bytes, whatever its values are."""
    return b"".join(_written(values[name]) for name in HEADER if name != "changedFields") + b"\0\0\0" + b"\0"


def _written(value: Any) -> bytes:
    if isinstance(value, list):
        return (_long(len(value)) + b"".join(map(_written, value)) if value else b"") + b"\0"
    if isinstance(value, str | bytes):
        raw = value if isinstance(value, bytes) else value.encode()
        return _long(len(raw)) + raw
    return _long(value)


def _long(value: int) -> bytes:
    zigzag, out = (value << 1) ^ (value >> 63), bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


@pytest.mark.parametrize("made", [headers_in_json, headers_in_avro], ids=["JSON", "Avro"])
@pytest.mark.parametrize("at_once", [1, 1_000_000], ids=["one by one", "many at once"])
def test_whatever_stands_in_a_change_events_header_it_is_landed_or_quarantined_and_every_reader_can_read_the_table(
    made: Callable[[], Iterable[DeliveredEvent]], at_once: int, tmp_path: Path
) -> None:
    events, warehouse = list(made()), Warehouse(str(tmp_path))
    checkpoint, landed = StreamCheckpoint("/data/ChangeEvents"), []
    for start in range(0, len(events), at_once):
        some = events[start : start + at_once]
        landed.append(land(checkpoint, some, lambda _: None, resume=ResumePoint(b"1"), complete=True))
        checkpoint = landed[-1].checkpoint
    rows, quarantined = (
        pa.concat_tables(each) for each in zip(*((e.rows, e.quarantined) for e in landed), strict=True)
    )
    RawEvents.open(warehouse).commit(rows, checkpoint)
    found = read_by_all(warehouse.uri("raw_events"))
    positions = [row["position"] for row in found] + quarantined["position"].to_pylist()
    assert sorted(positions) == list(range(1, len(events) + 1))
    assert len(found) > 10
    assert all(each for each in quarantined["error"].to_pylist())


def read_by_all(uri: str) -> Sequence[dict[str, Any]]:
    """The rows in the order of their positions, as each reader of tables gives them; Arrow's are returned."""
    table = DeltaTable(uri)
    rows: list[dict[str, Any]] = pa.table(table.scan()).to_pylist()
    assert pl.scan_delta(uri).sort("position").collect().to_dicts()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        files = connection.read_parquet(table.file_uris())
        assert len(files.fetchall()) == len(rows)
    assert table.get_add_actions(flatten=True).num_rows
    return sorted(rows, key=lambda row: row["position"])


def _no_number(constant: str) -> None:
    raise AssertionError(constant)
