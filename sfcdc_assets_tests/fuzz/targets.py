"""What is fuzzed: each parser of bytes from outside, and what must hold of it whatever the bytes are.

A target takes bytes and returns, or raises what the parser's docstring says, which is swallowed here. Anything else
that is raised is a defect; so is a run that takes longer than `SECONDS`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import suppress
from itertools import compress
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa
import requests

from sfcdc_assets.change_events.bitmap import field_bits
from sfcdc_assets.change_events.cell_lists import CellLists, members_of
from sfcdc_assets.change_events.change_event import DecodedEvent
from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.decode import EventDecoder
from sfcdc_assets.change_events.errors import BitmapError, ChangeEventError, EventSchemaError
from sfcdc_assets.change_events.event_schema import compile_avro, header_schema, parse_event_schema, schema_fields
from sfcdc_assets.change_events.payload_form import AVRO, JSON, header_of_payload
from sfcdc_assets.event_channels.payload_schema import PayloadSchemaError, read_payload_schema
from sfcdc_assets.event_channels.push_topics.definition_files import read_definition
from sfcdc_assets.event_channels.push_topics.errors import TopicFileError, TopicNotSupported
from sfcdc_assets.event_channels.push_topics.soql_tokens import in_one_line
from sfcdc_assets.event_channels.push_topics.topic_query import topic_query
from sfcdc_assets.polls.object_files import ObjectFileError, read_object_file
from sfcdc_assets.salesforce.answers import json_of, refusal_of
from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.errors import RowsUnreadable, UnexpectedAnswer
from sfcdc_assets.streams.cometd.errors import CometdError
from sfcdc_assets.streams.cometd.http import messages_of
from sfcdc_assets.streams.cometd.replies import Refusal
from sfcdc_assets.streams.cometd.replies import refusal_of as refusal_of_reply
from sfcdc_assets.streams.cometd.subscription import delivered_event
from sfcdc_assets.text_diff import TextDiffError, reconstruct, reconstruct_text
from sfcdc_assets_tests.change_events.written_event import event_schema, optional, record

SECONDS = 10.0
FEW_GUESSES = 64
TOGETHER = 250
"""How many payloads are read at once: one by one that takes a hundred times as long as to read each alone."""

SCHEMA = event_schema(
    optional("Name", "string"),
    optional("Amount", "double"),
    optional("Count", "int"),
    optional("Active", "boolean"),
    optional("Address", record("Address", optional("City", "string"), optional("Latitude", "double"))),
    optional("Description", "string"),
)
COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Amount", ColumnType.DOUBLE, False, "currency"),
    Column("Count", ColumnType.INT, False, "int"),
    Column("Active", ColumnType.BOOLEAN, False, "boolean"),
    Column("Description", ColumnType.STRING, True, "textarea"),
)
_DECODER = EventDecoder(json.dumps(SCHEMA), COLUMNS)
_JSON_DECODER = JSON.decoder(json.dumps(SCHEMA), COLUMNS)
_MANY = AVRO.many_decoder(json.dumps(SCHEMA), COLUMNS)
_MEMBERS = members_of(COLUMNS)
_FIELDS = schema_fields(SCHEMA)
_waiting: list[tuple[bytes, DecodedEvent | None]] = []
"""Payloads, and what was read of each alone, that are to be read at once."""
_PAGE = pa.schema(
    {
        "Id": pa.string(),
        "Name": pa.string(),
        "Amount": pa.float64(),
        "Count": pa.int32(),
        "Active": pa.bool_(),
        "Seen": pa.timestamp("us", "UTC"),
        "Born": pa.date32(),
    }
)


class _Text(NamedTuple):
    """A file that is nowhere but here."""

    content: bytes
    stem: str = "Invoice__c"
    name: str = "Invoice__c.toml"

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.content.decode(encoding)


def avro_payload(data: bytes) -> None:
    """Read one payload, and when there are `TOGETHER` of them all at once."""
    with suppress(ChangeEventError):
        header_of_payload(data)
    one = None
    with suppress(ChangeEventError):
        one = _DECODER.decode(data)
    _waiting.append((data, one))
    if len(_waiting) >= TOGETHER:
        read_together()


def read_together() -> None:
    """Read the payloads that wait at once: of each it says what was read of it alone, or leaves it to who does that."""
    waiting = list(_waiting)
    _waiting.clear()
    assert _MANY is not None
    many = _MANY.decode(pa.array([data for data, _ in waiting], pa.binary()))
    lists = many.diff_columns.to_pylist(), many.cells.to_pylist(), many.enriched.to_pylist()
    taken = compress(waiting, many.taken)
    for (data, one), diff_columns, cells, enriched in zip(taken, *lists, strict=True):
        assert one is not None, f"many at once were read of what cannot be read: {data.hex()}"
        assert one.missing is None, data.hex()
        assert diff_columns == sorted(one.diff_columns), data.hex()
        for found, expected in ((cells, one.cells), (enriched, one.enriched)):
            made = CellLists(_MEMBERS)
            made.add(expected)
            assert str([found]) == str(made.build().to_pylist()), data.hex()


def json_payload(data: bytes) -> None:
    """Read a payload in JSON, as CometD delivers it."""
    with suppress(ChangeEventError):
        JSON.read_header(data)
    with suppress(ChangeEventError):
        _JSON_DECODER.decode(data)


def avro_schema(data: bytes) -> None:
    """Read a schema, as GetSchema or REST gives it."""
    with suppress(EventSchemaError):
        schema = parse_event_schema(data.decode(errors="replace"))
        header_schema(schema)
        schema_fields(schema)
        compile_avro(schema)


def bitmap(data: bytes) -> None:
    """Read a bitmap; the bits that are found make the same bitmap again."""
    elements = data.decode("latin-1").split(",")
    with suppress(BitmapError):
        bits = field_bits(elements, _FIELDS)
        again = [f"0x{1 << bit:X}" if child is None else f"{bit}-0x{1 << child:X}" for bit, child in bits]
        assert field_bits(again, _FIELDS) == bits


def text_diff(data: bytes) -> None:
    """Apply a diff to a text (both from `data`): what comes out has the hash that the diff names. Most inputs are given
    few guesses of line ends: all of them would take a hundred times as long as everything else."""
    base, _, diff = data.decode(errors="replace").partition("\0")
    named = hashlib.sha256(base.encode()).hexdigest()
    guesses = reconstruct.MOST_GUESSES
    reconstruct.MOST_GUESSES = guesses if crc32(data) % 256 == 0 else FEW_GUESSES
    try:
        for wanted in (diff, f"--- \n+++ {named}\n{diff}"):
            with suppress(TextDiffError):
                new = reconstruct_text(base, wanted)
                assert hashlib.sha256(new.encode()).hexdigest() in wanted.lower()
    finally:
        reconstruct.MOST_GUESSES = guesses


def bulk_csv(data: bytes) -> None:
    """Read a page of Bulk API 2.0."""
    with suppress(UnexpectedAnswer, RowsUnreadable):
        page = read_page(io.BytesIO(data), _PAGE, "page")
        page.table.validate(full=True)
        page.table.to_pylist()


def rest_json(data: bytes) -> None:
    """Read an answer of REST, and a refusal."""
    answer = _response(data)
    with suppress(UnexpectedAnswer):
        json_of(answer)
    refusal_of(answer, "a request")


def cometd(data: bytes) -> None:
    """Read an answer of CometD, its events and refusals."""
    with suppress(CometdError):
        for message in messages_of(_response(data), data, Refusal("/meta/connect")):
            refusal_of_reply(message, "/meta/connect")
            if isinstance(message.get("data"), dict):
                delivered_event(message, 0)


def soql(data: bytes) -> None:
    """Read a PushTopic's query; in one line it says the same."""
    text = data.decode(errors="replace")
    with suppress(TopicNotSupported):
        found = topic_query(text)
        assert topic_query(in_one_line(text)) == found


def toml(data: bytes) -> None:
    """Read the three kinds of files that people write."""
    text = _Text(data)
    with suppress(TopicFileError):
        read_definition(text)  # type: ignore[arg-type]
    with suppress(PayloadSchemaError):
        read_payload_schema(text)  # type: ignore[arg-type]
    with suppress(ObjectFileError):
        read_object_file(text)  # type: ignore[arg-type]


def _response(data: bytes) -> requests.Response:
    made = requests.Response()
    made._content = data
    made.status_code = 200
    made.url = "https://org.example/services"
    made.reason = "OK"
    return made


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        avro_payload,
        json_payload,
        avro_schema,
        bitmap,
        text_diff,
        bulk_csv,
        rest_json,
        cometd,
        soql,
        toml,
    )
}
