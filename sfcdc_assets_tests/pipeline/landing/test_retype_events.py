"""Events that landed before a channel's description was changed are typed again, from their bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfcdc_assets.change_events.privacy import FieldPattern, Privacy
from sfcdc_assets.event_channels.event_rows import event_rows, missing_columns
from sfcdc_assets.event_channels.generic_event import GenericReader
from sfcdc_assets.event_channels.payload_schema import read_payload_schema
from sfcdc_assets.event_channels.typed_event import NotKnownYet, TypedEvent, read_event
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.maintenance.pack import Packing, pack
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing import retype_events as module
from sfcdc_assets.landing.retype_events import NothingLanded, TypedAgain, type_again, type_waiting
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows

CHANNEL = "/u/Orders"
NAME = "generic_events/Orders"


def reader(tmp_path: Path, columns: str, privacy: Privacy | None = None) -> GenericReader:
    """By a file with these columns."""
    path = tmp_path / "orders.toml"
    path.write_text(f'channel = "{CHANNEL}"\n[columns]\n{columns}\n')
    return GenericReader("Orders", read_payload_schema(path), privacy or Privacy())


def delivered(number: int, payload: object) -> DeliveredEvent:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    event = {"createdDate": "2026-11-20T10:00:00.000Z", "replayId": number}
    message = json.dumps({"event": event, "payload": text})
    return DeliveredEvent(f"{number:032x}", "", message.encode(), str(number).encode(), 1_700_000_000_000 + number)


def land(warehouse: Warehouse, by: GenericReader, *payloads: object) -> None:
    """One commit, as a reading makes it."""
    table = EventTable.open_or_create(warehouse, CHANNEL, by.own_columns)
    first = table.last_position(CHANNEL) + 1
    events = [delivered(first + number, payload) for number, payload in enumerate(payloads)]
    typed = [by.read(event) for event in events]
    table.table.add_columns(missing_columns(table.table.schema, typed))
    table = EventTable.open_or_create(warehouse, CHANNEL, by.own_columns)
    rows = event_rows(CHANNEL, first, events, typed, table.table.schema)
    last = first + len(events) - 1
    table.commit(rows, StreamCheckpoint(CHANNEL, last, last, ResumePoint(events[-1].replay_id, 1)))


def rows(warehouse: Warehouse) -> list[dict[str, Any]]:
    return landed_rows(warehouse, CHANNEL)


def files(warehouse: Warehouse) -> set[str]:
    table = EventTable.open(warehouse, CHANNEL)
    assert table is not None
    return {file.path for file in table.table.files()}


def test_a_column_that_a_file_gains_has_the_values_of_older_events_and_nothing_else_changes(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    old = reader(tmp_path, 'id = "string"')
    land(warehouse, old, {"id": "A"}, {"id": "B", "amount": 9.5, "address": {"city": "Oslo"}}, "no JSON")
    land(warehouse, old, {"id": "C"}, {"id": "D", "amount": "much"})
    land(warehouse, old, {"id": "E"})
    before, standing = rows(warehouse), files(warehouse)
    new = reader(tmp_path, 'id = "string"\namount = "double"\ncity = { type = "string", path = "address.city" }')
    assert type_again(warehouse, CHANNEL, new) == TypedAgain(rows=6, changed=2, files=2)
    after = rows(warehouse)
    assert [(row["id"], row["amount"], row["city"]) for row in after] == [
        ("A", None, None),
        ("B", 9.5, "Oslo"),
        (None, None, None),
        ("C", None, None),
        ("D", None, None),
        ("E", None, None),
    ]
    assert [row["_rescued_data"] for row in after] == [None, None, None, None, '{"amount": "much"}', None]
    assert [bool(row["_problem"]) for row in after] == [False, False, True, False, True, False]
    typed = {"amount", "city", "_problem", "_rescued_data"}
    assert [{**row, **dict.fromkeys(typed)} for row in after] == [{**row, **dict.fromkeys(typed)} for row in before]
    assert len(files(warehouse) & standing) == 1, "a file in which nothing changes is not written again"
    assert type_again(warehouse, CHANNEL, new) == TypedAgain(rows=6), "a second time there is nothing to do"
    land(warehouse, new, {"id": "F", "amount": 1})
    assert rows(warehouse)[-1]["amount"] == 1
    table = EventTable.open(warehouse, CHANNEL)
    assert table is not None
    assert table.checkpoint(CHANNEL).position == 7
    assert table.problems() == 2


def test_events_from_before_there_was_a_file_get_its_columns_and_a_retyped_one_keeps_its_old_values(
    tmp_path: Path,
) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    land(warehouse, GenericReader("Orders", None, Privacy()), {"amount": 5}, {"amount": 7.5})
    assert "amount" not in rows(warehouse)[0]
    type_again(warehouse, CHANNEL, reader(tmp_path, 'amount = "boolean"'))
    assert [(row["amount"], bool(row["_problem"])) for row in rows(warehouse)] == [(None, True)] * 2
    type_again(warehouse, CHANNEL, reader(tmp_path, 'amount = "double"'))
    assert [row["amount__double"] for row in rows(warehouse)] == [5.0, 7.5]
    assert [row["_problem"] for row in rows(warehouse)] == [None, None]
    type_again(warehouse, CHANNEL, reader(tmp_path, 'other = "double"'))
    assert [row["amount__double"] for row in rows(warehouse)] == [5.0, 7.5], "no value of a column is given up"


def test_rows_without_their_bytes_stay_as_they_are_and_are_counted(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    private = Privacy((FieldPattern.read("Orders.name"),))
    land(warehouse, reader(tmp_path, 'id = "string"', private), {"id": "A", "name": "Ada", "amount": 1})
    land(warehouse, reader(tmp_path, 'id = "string"'), {"id": "B", "amount": 2})
    report = type_again(warehouse, CHANNEL, reader(tmp_path, 'id = "string"\namount = "double"'))
    assert report == TypedAgain(rows=2, changed=1, files=1, without_bytes=1)
    assert [(row["id"], row["amount"]) for row in rows(warehouse)] == [("A", None), ("B", 2.0)]
    before = rows(warehouse)
    stricter = reader(tmp_path, 'id = "string"\nother = "double"', private)
    assert type_again(warehouse, CHANNEL, stricter) == TypedAgain(rows=2, without_bytes=2)
    assert rows(warehouse) == [{**row, "other": None} for row in before], "no bytes are given up by it"


def test_events_that_land_and_files_that_are_packed_meanwhile_are_neither_lost_nor_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    old, new = reader(tmp_path, 'id = "string"'), reader(tmp_path, 'id = "string"\namount = "double"')
    for number in range(6):
        land(warehouse, old, {"id": str(number), "amount": number})
    write, written = module.write_file, 0

    def while_others_work(*given: Any, **named: Any) -> Any:
        nonlocal written
        written += 1
        file = write(*given, **named)
        if written == 2:
            land(warehouse, new, {"id": "6", "amount": 6})
            pack(warehouse, NAME, Packing(("position",)))
        return file

    monkeypatch.setattr(module, "write_file", while_others_work)
    type_again(warehouse, CHANNEL, new)
    assert [(row["position"], row["amount"]) for row in rows(warehouse)] == [(each + 1, each) for each in range(7)]
    there = {path.name for path in (tmp_path / "warehouse" / NAME).glob("typed-*.parquet")}
    assert written > len(there), "a file for which others were first was removed"


def test_a_channel_of_which_nothing_landed_is_named(tmp_path: Path) -> None:
    with pytest.raises(NothingLanded, match="/u/Orders: no event has landed"):
        type_again(Warehouse(str(tmp_path / "warehouse")), CHANNEL, reader(tmp_path, 'id = "string"'))


class Partly:
    """Reads as another reader does, but for the events that have a word in them, of which nothing is known now."""

    own_columns = pa.schema([])

    def __init__(self, by: GenericReader, word: bytes, *, keeps_unread: bool = True) -> None:
        self.keeps_unread = keeps_unread
        self._by, self._word = by, word

    def read(self, event: DeliveredEvent) -> TypedEvent:
        if self._word in event.payload:
            raise NotKnownYet(CHANNEL, "the schema")
        return self._by.read(event)


def land_untyped(warehouse: Warehouse, *payloads: object) -> None:
    """One commit of events that wait to be typed."""
    table = EventTable.open_or_create(warehouse, CHANNEL)
    first = table.last_position(CHANNEL) + 1
    events = [delivered(first + number, payload) for number, payload in enumerate(payloads)]
    typed = [read_event(Partly(GenericReader("Orders", None, Privacy()), b""), event) for event in events]
    rows = event_rows(CHANNEL, first, events, typed, table.table.schema)
    last = first + len(events) - 1
    table.land(rows, StreamCheckpoint(CHANNEL, last, last, ResumePoint(events[-1].replay_id, 1)), "", 1)


@pytest.mark.parametrize("keeps_unread", [True, False], ids=["", "a rule of privacy was made about them since"])
def test_an_event_that_waits_still_keeps_no_other_one_waiting(tmp_path: Path, keeps_unread: bool) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    land_untyped(warehouse, {"id": "first"}, {"id": "unknown"}, {"id": "last"})
    by = reader(tmp_path, 'id = "string"')
    assert type_waiting(warehouse, CHANNEL, Partly(by, b"unknown", keeps_unread=keeps_unread)) == 2
    assert [row["id"] for row in rows(warehouse)] == ["first", None, "last"]
    assert type_waiting(warehouse, CHANNEL, by) == 0
    assert [row["id"] for row in rows(warehouse)] == ["first", "unknown", "last"]


@pytest.mark.parametrize("keeps_unread", [True, False], ids=["", "with a rule of privacy"])
def test_what_is_typed_already_is_not_taken_back_where_it_cannot_be_read_now(
    tmp_path: Path, keeps_unread: bool
) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    land(warehouse, GenericReader("Orders", None, Privacy()), {"id": "A"}, {"id": "B"})
    by = reader(tmp_path, 'id = "string"')
    done = type_again(warehouse, CHANNEL, Partly(by, b"A", keeps_unread=keeps_unread))
    assert done == TypedAgain(rows=2, changed=1, files=1, unknown=1)
    assert [(row["id"], row["_problem"]) for row in rows(warehouse)] == [(None, None), ("B", None)]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_damaged_file_keeps_no_event_of_other_files_waiting(tmp_path: Path, is_first: bool) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    land_untyped(warehouse, {"id": "A"})
    (first,) = files(warehouse)
    land_untyped(warehouse, {"id": "B"})
    damaged, other = (first, "B") if is_first else (max(files(warehouse) - {first}), "A")
    whole = (warehouse.folder / NAME / damaged).read_bytes()
    (warehouse.folder / NAME / damaged).write_bytes(b"no Parquet file")
    by = reader(tmp_path, 'id = "string"')
    with pytest.raises(TableDamaged):
        type_waiting(warehouse, CHANNEL, by)
    table = EventTable.open(warehouse, CHANNEL)
    assert table is not None
    assert table.table.read_files(list(files(warehouse) - {damaged}), ["id"])["id"].to_pylist() == [other]
    (warehouse.folder / NAME / damaged).write_bytes(whole)
    assert type_waiting(warehouse, CHANNEL, by) == 0
    assert [row["id"] for row in rows(warehouse)] == ["A", "B"]
