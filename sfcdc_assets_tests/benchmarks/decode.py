"""Decode: from the payloads of raw_events to changes, on one core, beside readers that make no changes of them.

Batches are as large as those that a Spark task takes from a file. CPU seconds are measured, of one thread.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from sfcdc_assets.change_events import columns, decode_field_bitmap
from sfcdc_assets.timeline.changes import ChangeReader
from sfcdc_assets_tests.benchmarks.interleave import cpu_seconds, interleaved, rate
from sfcdc_assets_tests.benchmarks.sample_events import SampleEvents, sample_events
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

DICTS, TABLE, RUHVRO = "fastavro to dicts", "fastavro and from_pylist", "pyruhvro, without bitmaps"
REPEATING, VARIED = "repeating bitmaps", "varied bitmaps"
GOALS = {60: 6.0, 400: 10.0}
"""Fields of the schema -> how many times the events of `TABLE`."""
BATCH = 8192
AS_MUCH = 0.9
"""The same, but for what two measurements of one thing differ by."""


def _measure(quick: bool) -> Sequence[Figure]:
    pa.set_cpu_count(1)
    figures, sizes = [], {60: 500, 400: 200} if quick else {60: 4 * BATCH, 400: 2 * BATCH}
    for fields, count in sizes.items():
        cases = {REPEATING: _Case(fields, count, varied=False), VARIED: _Case(fields, count, varied=True)}
        for case in cases.values():
            case.compare()
        contestants = {
            (bitmaps, name): rate(count, cpu_seconds(work))
            for bitmaps, case in cases.items()
            for name, work in case.contestants().items()
        }
        named = {" | ".join(key): trial for key, trial in contestants.items()}
        found = interleaved(named, rounds=1 if quick else 5)
        for bitmaps in cases:
            measured = {name: found[f"{bitmaps} | {name}"] for of, name in contestants if of == bitmaps}
            goal = Goal(GOALS[fields], TABLE, at_least=True)
            figures.append(Figure(f"{fields} fields, {bitmaps}", "events/s", measured.pop("ours"), measured, goal))
        ours = {bitmaps: found[f"{bitmaps} | ours"] for bitmaps in cases}
        goal = Goal(AS_MUCH, REPEATING, at_least=True)
        figures.append(
            Figure(f"{fields} fields, {VARIED} again", "events/s", ours[VARIED], {REPEATING: ours[REPEATING]}, goal)
        )
    return figures


class _Case:
    """Events of one kind, and what reads them."""

    def __init__(self, fields: int, count: int, *, varied: bool) -> None:
        self._events = sample_events(fields, count, varied=varied)
        schema_json = json.dumps(self._events.schema)
        self._columns = columns(self._events.schema)
        self._reader = ChangeReader({"schema": schema_json}, self._columns)
        self._schema_json = schema_json
        self._parsed = fastavro.parse_schema(dict(self._events.schema))
        self._batches = [
            _raw_events(self._events, first, min(BATCH, count - first)) for first in range(0, count, BATCH)
        ]

    def contestants(self) -> dict[str, Callable[[], object]]:
        payloads = [batch.column("payload") for batch in self._batches]
        return {
            "ours": self._changes,
            DICTS: lambda: [self._dicts(of) for of in payloads],
            TABLE: lambda: [pa.Table.from_pylist(self._dicts(of)) for of in payloads],
            RUHVRO: lambda: [_columns_of_ruhvro(of.to_pylist(), self._schema_json) for of in payloads],
        }

    def compare(self) -> None:
        """Our changes with what fastavro and the bitmaps, read one by one, say of each event; and pyruhvro's columns
        with the same."""
        events = self._dicts(pa.array(self._events.payloads, pa.binary()))
        changes = [row for batch in self._changes() for row in batch.to_pylist()]
        if len(changes) != len(events):
            raise WrongAnswer(f"{len(changes)} changes of {len(events)} events")
        for number, (change, event) in enumerate(zip(changes, events, strict=True)):
            reported = {self._columns[cell["column"]].name: _value(cell) for cell in change["cells"]}
            expected = _expected(event, self._events.schema)
            same = reported == expected and len(reported) == len(change["cells"])
            if not same or change["record_id"] != event["ChangeEventHeader"]["recordIds"][0]:
                raise WrongAnswer(f"event {number}: {str(reported)[:300]} instead of {str(expected)[:300]}")
            if change["error"] or change["missing"] or change["enriched"] or change["diff_columns"]:
                raise WrongAnswer(f"event {number}: {str(change)[:300]} says what its event does not")
        read = _columns_of_ruhvro(list(self._events.payloads[:100]), self._schema_json)
        for name in ("Field_0__c", "Field_6__c", "Field_9__c"):
            if pa.array(read[name]).to_pylist() != [event[name] for event in events[:100]]:
                raise WrongAnswer(f"pyruhvro reads another {name} than fastavro")

    def _changes(self) -> list[pa.RecordBatch]:
        return [self._reader.read(batch) for batch in self._batches]

    def _dicts(self, payloads: pa.Array) -> list[dict[str, Any]]:
        read: Any = fastavro.schemaless_reader
        return [read(io.BytesIO(payload), self._parsed) for payload in payloads.to_pylist()]


def _raw_events(events: SampleEvents, first: int, count: int) -> pa.RecordBatch:
    """As a file of `raw_events` has them; headers are not what is compared."""
    payloads = events.payloads[first : first + count]
    return pa.RecordBatch.from_pydict(
        {
            "channel": ["/data/ChangeEvents"] * count,
            "position": list(range(first + 1, first + count + 1)),
            "schema_id": ["schema"] * count,
            "payload": pa.array(payloads, pa.binary()),
            "record_ids": [_record_ids(payload) for payload in payloads],
            "change_type": ["UPDATE"] * count,
            "commit_timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "commit_user": ["005Dp000000PpjsIAC"] * count,
            "change_origin": [""] * count,
            "transaction_key": ["key"] * count,
        }
    )


def _columns_of_ruhvro(payloads: Sequence[bytes], schema_json: str) -> pa.RecordBatch:
    import pyruhvro  # noqa: PLC0415 - of the extra `bench`, which the harness's tests do without

    return pyruhvro.deserialize_array(payloads, schema_json)


def _record_ids(payload: bytes) -> list[str]:
    """The one id of a payload of ours, which begins with the entity's name and the list of ids."""
    begin = 1 + (payload[0] >> 1) + 2
    return [payload[begin : begin + 18].decode()]


def _value(cell: Mapping[str, Any]) -> object:
    return next((cell[member] for member in "sdl" if cell[member] is not None), None)


def _expected(event: Mapping[str, Any], schema: dict[str, Any]) -> dict[str, object]:
    """The fields an event sets, and to what, as cells have it: a time in microseconds, a boolean as a number."""
    head = event["ChangeEventHeader"]
    kind = head["changeType"]
    names = [field["name"] for field in schema["fields"][1:]] if kind == "CREATE" else []
    if kind == "UPDATE":
        names = decode_field_bitmap(head["changedFields"], schema)
    types = {field["name"]: field["type"][1] for field in schema["fields"][1:]}
    values = {name: event[name] for name in names}
    return {
        name: value * 1000 if types[name] == "long" and value is not None else value for name, value in values.items()
    }


STAGE = Stage(
    "Decode, payload to changes, one core",
    _measure,
    "The changes of every event with what fastavro and the bitmaps, read one by one, say of it; some columns of "
    "pyruhvro with fastavro's.",
    "Passes of numpy over a batch: one for each further value of the event that has the most of them, and the marks of "
    "which field is named, an entry for each field of each event.",
)
