"""Stories: all sequences of events about two records, up to a length, as frames that the real functions take.

Each story has record Ids of its own, so that a hundred thousand of them are one table. Two records that only change
places are one story: the first event is about the first record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.timeline.changes import CHANGES, UNDECODABLE
from sfcdc_assets_tests.worlds.org import BEFORE, KINDS, OVERFLOW, Record, after

COLUMNS = (
    Column("Id", ColumnType.STRING, False, "id"),
    Column("Name", ColumnType.STRING, False, "string"),
    Column("Count", ColumnType.INT, False, "int"),
    Column("Description", ColumnType.STRING, True, "textarea"),
)
SECOND = 1_000_000
"""Microseconds: an event at position n is committed n seconds after 1970."""
OPENING = pl.Schema({"Id": pl.String, "position": pl.Int64, "on_hidden": pl.Boolean, "is_diff": pl.Boolean})
"""`on_hidden`: the event opens an entry only where the tables know nothing of the record. `is_diff`: it opens none
where a read ahead of the stream has shown the very text that it leads to."""
MEMBERS = {"Name": "s", "Count": "l", "Description": "s"}


class Event(NamedTuple):
    """What happens at one position: to the first record, the second one, or (`OVERFLOW`) the entity."""

    record: int
    kind: str


class Story(NamedTuple):
    """How the two records are before the first event, and the events at positions 1, 2, ..."""

    before: tuple[str, str]
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Stories:
    """Many stories of one length that have their overflows at the same positions.

    `changes`: what the events say, as `CHANGES`; `truth`: each record at each position (0: before the first event), a
    row each: `Id`, `story`, `at`, the record, `is_hidden`; `opening`: the events that may open an entry, as `OPENING`.
    """

    stories: Sequence[Story]
    length: int
    overflows: tuple[int, ...]
    changes: pl.DataFrame
    truth: pl.DataFrame
    opening: pl.DataFrame

    @classmethod
    def of(cls, stories: Sequence[Story], first: int = 0) -> Stories:
        """Number the stories from `first` on."""
        length = len(stories[0].events)
        overflows = _overflows(stories[0])
        reported: list[dict[str, object]] = []
        truth: list[tuple[object, ...]] = []
        opening: list[tuple[object, ...]] = []
        for number, story in enumerate(stories, first):
            ids = (f"{number:07d}a", f"{number:07d}b")
            now = [BEFORE[each] for each in story.before]
            for position in range(length + 1):
                if position:
                    event = story.events[position - 1]
                    concerned = (0, 1) if event.kind == OVERFLOW else (event.record,)
                    for each in concerned:
                        was = now[each]
                        now[each] = after(was, event.kind, position)
                        if event.kind == OVERFLOW:
                            continue
                        reported.append(change(ids[each], position, event.kind, was, now[each]))
                        kind = KINDS[event.kind]
                        if kind.opens or kind.change_type == "UPDATE":
                            opening.append((ids[each], position, not kind.opens, event.kind == "broken diff"))
                hidden = (each == "hidden" for each in story.before)
                truth += [
                    (record_id, number, position, *record, is_hidden)
                    for record_id, record, is_hidden in zip(ids, now, hidden, strict=True)
                ]
        shape = {"Id": pl.String, "story": pl.Int64, "at": pl.Int64, "life": pl.String, "Name": pl.String}
        rest = {"Count": pl.Int32, "Description": pl.String, "modified": pl.Int64, "is_hidden": pl.Boolean}
        return cls(
            stories,
            length,
            overflows,
            arrow_frame(pa.Table.from_pylist(reported, schema=CHANGES)),
            pl.DataFrame(truth, schema=shape | rest, orient="row"),
            pl.DataFrame(opening, OPENING, orient="row"),
        )


def change(record_id: str, position: int, name: str, was: Record, now: Record) -> dict[str, object]:
    """Return what an event says, as a row of `CHANGES`."""
    kind = KINDS[name]
    values = {field: getattr(now, field) for field in kind.tells}
    diffs: list[int] = []
    if name in ("diff", "broken diff"):
        shown = now.Description if name == "diff" else "garbled"
        digest = hashlib.sha256(str(now.Description).encode()).hexdigest()
        values["Description"] = f"--- \n+++ {digest}\n@@ -1,1 +1,1 @@\n-{was.Description}\n+{shown}"
        diffs = [3]
    names = [column.name for column in COLUMNS]
    return {
        "key_range": 0,
        "record_id": record_id,
        "position": position,
        "change_type": kind.change_type,
        "commit_timestamp": position * SECOND,
        "commit_user": "u",
        "change_origin": "o",
        "transaction_key": f"t{position}",
        "cells": [
            {"column": names.index(field), "s": None, "d": None, "l": None} | {MEMBERS[field]: value}
            for field, value in values.items()
        ],
        "diff_columns": diffs,
        "enriched": [],
        "error": "garbled" if kind.change_type == UNDECODABLE else None,
        "missing": "Name" if name == "untold name" else None,
        "unproven": [1] if name == "untold name" else None,
    }


def all_stories(length: int, most_overflows: int = 1) -> Iterator[Story]:
    """Yield every story of a length whose first event is about the first record, or about the entity."""
    for before in product(BEFORE, BEFORE):
        for events in _events(tuple(BEFORE[each] for each in before), length, 1, most_overflows):
            first = next((each.record for each in events if each.kind != OVERFLOW), 0)
            if first == 0:
                yield Story((before[0], before[1]), events)


def in_crowds(stories: Iterator[Story], size: int) -> Iterator[Stories]:
    """Yield the stories as frames of so many at most, those with the same overflows together."""
    waiting: dict[tuple[int, ...], list[Story]] = {}
    for story in stories:
        crowd = waiting.setdefault(_overflows(story), [])
        crowd.append(story)
        if len(crowd) == size:
            yield Stories.of(crowd)
            crowd.clear()
    yield from (Stories.of(crowd) for crowd in waiting.values() if crowd)


def some(stories: Iterator[Story], every: int, least: int = 0) -> Iterator[Story]:
    """Yield every so manieth story, from `least` on."""
    return islice(stories, least, None, every)


def _events(records: Sequence[Record], length: int, position: int, overflows: int) -> Iterator[tuple[Event, ...]]:
    if position > length:
        yield ()
        return
    for number, record in enumerate(records):
        for name, kind in KINDS.items():
            if kind.life == record.life:
                changed = [*records]
                changed[number] = after(record, name, position)
                for rest in _events(changed, length, position + 1, overflows):
                    yield (Event(number, name), *rest)
    if overflows:
        changed = [after(record, OVERFLOW, position) for record in records]
        for rest in _events(changed, length, position + 1, overflows - 1):
            yield (Event(0, OVERFLOW), *rest)


def _overflows(story: Story) -> tuple[int, ...]:
    return tuple(number for number, event in enumerate(story.events, 1) if event.kind == OVERFLOW)
