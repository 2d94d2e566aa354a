"""Events that are malformed in one part, as the emulated org sends them: over Pub/Sub a message of its own, over CometD
a message in JSON.

What is malformed is what is sent, every time that it is sent: the org itself has the event whole.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import fastavro
import pytest

from sfcdc_assets.emulator.cometd.held_connects import HeldConnects
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.pubsub import topic_reader
from sfcdc_assets_tests.pipeline.stream import Stream

Sent = Any
"""A `ConsumerEvent` of the protocol, or the message of a CometD answer; changed in place."""
Spoil = Callable[[Sent], object]

HEADER = "ChangeEventHeader"


class Spoiled:
    """Which events of an org are sent malformed, and how many are sent over CometD in all."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._of: dict[tuple[bool, int], Spoil] = {}
        self._next: tuple[bool, int, Spoil] | None = None
        self.sent_over_cometd = 0
        self.struck: set[Spoil] = set()

    @contextmanager
    def next(self, spoil: Spoil, *, notification: bool = False) -> Iterator[None]:
        """Have the event that is published in the block, or the notification, be sent so: an open stream sends it
        before the block is over."""
        self._next = notification, self._newest(notification), spoil
        yield
        self._of[notification, self._newest(notification)] = spoil
        self._next = None

    def of_avro(self, counter: int, sent: Sent) -> None:
        self._spoil(counter, sent, is_notification=False)

    def of_json(self, message: Sent) -> None:
        self.sent_over_cometd += 1
        is_notification = not message["channel"].startswith(("/data/", "/event/"))
        self._spoil(message["data"]["event"]["replayId"], message, is_notification=is_notification)

    def _spoil(self, counter: int, sent: Sent, *, is_notification: bool) -> None:
        spoil, upcoming = self._of.get((is_notification, counter)), self._next
        if upcoming is not None and upcoming[0] is is_notification and counter > upcoming[1]:
            spoil = upcoming[2]
        if spoil is not None:
            spoil(sent)
            self.struck.add(spoil)

    def _newest(self, notification: bool) -> int:
        table, column = ("_notification", "replay_id") if notification else ("_bus_event", "counter")
        row = self._database.row(f"SELECT {column} FROM {table} ORDER BY number DESC LIMIT 1")
        return row[0] if row else 0


@contextmanager
def spoiling(org: Stream) -> Iterator[Spoiled]:
    """Have the org send what is noted to be malformed."""
    spoiled, with_events, read = Spoiled(org.org.database), topic_reader._with_events, HeldConnects._read

    def of_pubsub(events: Any) -> Any:
        response = with_events(events)
        for event, sent in zip(events, response.events, strict=True):
            spoiled.of_avro(event.counter, sent)
        return response

    def of_cometd(connects: HeldConnects, session: Any) -> list[dict[str, Any]]:
        messages = read(connects, session)
        for message in messages:
            spoiled.of_json(message)
        return messages

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_reader, "_with_events", of_pubsub)
        patch.setattr(HeldConnects, "_read", of_cometd)
        yield spoiled


# -- over Pub/Sub


def envelope(**values: Any) -> Spoil:
    """`replay_id`, or what the event itself has: `id`, `schema_id`, `payload`."""

    def spoil(sent: Sent) -> None:
        for name, value in values.items():
            setattr(sent if name == "replay_id" else sent.event, name, value)

    return spoil


def payload(change: Callable[[bytes], bytes]) -> Spoil:
    """Its bytes."""

    def spoil(sent: Sent) -> None:
        sent.event.payload = change(sent.event.payload)

    return spoil


def avro(org: Stream, change: Callable[[dict[str, Any]], object], *, as_ints: bool = False) -> Spoil:
    """Its values, written again with its schema; `as_ints`: its enum's index is a number of any size."""

    def spoil(sent: Sent) -> None:
        schema = _parsed(org.server.bus.schema_json(sent.event.schema_id) or "", as_ints)
        values: Any = fastavro.schemaless_reader(io.BytesIO(sent.event.payload), schema)
        change(values)
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, values)
        sent.event.payload = written.getvalue()

    return spoil


def avro_header(org: Stream, **values: Any) -> Spoil:
    """Fields of its header."""
    return avro(org, lambda body: body[HEADER].update(values), as_ints=isinstance(values.get("changeType"), int))


@lru_cache
def _parsed(schema_json: str, as_ints: bool) -> Any:
    schema = json.loads(schema_json)
    if as_ints:
        for field in schema["fields"][0]["type"]["fields"]:
            if field["name"] == "changeType":
                field["type"] = "int"
    return fastavro.parse_schema(schema)


# -- over CometD


def message(**values: Any) -> Spoil:
    """Members of the message itself."""
    return lambda sent: sent.update(values)


def without(*path: str) -> Spoil:
    """It lacks a member: of its data, or of what is in it."""

    def spoil(sent: Sent) -> None:
        inner = sent["data"]
        for name in path[:-1]:
            inner = inner[name]
        inner.pop(path[-1], None)

    return spoil


def data(values: Mapping[str, Any], *path: str) -> Spoil:
    """Members of its data, or of what is in it."""

    def spoil(sent: Sent) -> None:
        inner = sent["data"]
        for name in path:
            inner = inner[name]
        inner.update(values)

    return spoil


def json_header(**values: Any) -> Spoil:
    """Fields of a change event's header."""
    return data(values, "payload", HEADER)
