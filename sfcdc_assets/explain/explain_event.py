"""Where an event of a channel with a table of its own lies, and what it says, from the tables alone."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.event_channels.event_rows import EVENT_COLUMNS, KEPT_COLUMNS
from sfcdc_assets.explain.explanation import EXPLANATION, NotExplained, landing_columns, replay_text, texts_of
from sfcdc_assets.lake.tables.event_table import EventTable, event_tables
from sfcdc_assets.lake.tables.landing_commit import landing_commits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import table_of

RESCUED = "_rescued_data"
_KINDS = ("event_name", "event_type")
"""Columns that say of which kind an event is, by the kind of its channel; what is pushed to a generic one has none."""
_NOT_FIELDS = {*EVENT_COLUMNS.names, *KEPT_COLUMNS.names, *_KINDS, "carried_fields"} - {RESCUED}


def explain_event(warehouse: Warehouse, channel: str, event: str, field: str | None = None) -> pl.DataFrame:
    """Return the values of an event, of one field or of all that it has, as `EXPLANATION`.

    `event`: its id (`EventUuid`), its replay id (a number, or hexadecimal digits) or `@` with its position. Publishers
    may give several events one id: then there are rows of each. An event that cannot be read has one row without a
    field; its `suspect` says why. Raises `NotExplained` for a channel, event or field that the tables lack.
    """
    table = opened(warehouse, channel)
    rows = _rows(table, channel, event)
    names = [name for name in table.table.schema.names if name not in _NOT_FIELDS]
    if field is not None:
        found = [name for name in names if name.lower() == field.lower()]
        if not found:
            raise NotExplained.no_field(channel, field, names)
        names = found
    commits = landing_commits(warehouse, table_of(channel), channel, rows["position"].to_pylist())
    texts = {name: texts_of(rows[name]) for name in names}
    explained: list[dict[str, Any]] = []
    for number, row in enumerate(rows.to_pylist()):
        about = {
            "Id": row["event_id"],
            "valid_from": row["created_date"],
            "change_type": next((row[name] for name in _KINDS if name in row), "pushed"),
            "commit_user": row.get("CreatedById"),
            "position": row["position"],
            "change_origin": channel,
            "event_id": row["event_id"],
            "replay_id": replay_text(row["replay_id"]),
            "received_at": row["received_at"],
            **landing_columns(commits.get(row["position"])),
            "suspect": row["_problem"],
        }
        shown = [name for name in names if texts[name][number] is not None or field is not None]
        explained += [{**about, "field": name, "value": texts[name][number]} for name in shown] or [about]
    return pl.DataFrame(explained, schema=EXPLANATION)


def opened(warehouse: Warehouse, channel: str) -> EventTable:
    """Return the channel's table. Raises `NotExplained`."""
    table = EventTable.open(warehouse, channel)
    if table is None:
        raise NotExplained.no_channel(channel, [each for each, _ in event_tables(warehouse)])
    return table


def _rows(table: EventTable, channel: str, event: str) -> pa.Table:
    """Return the rows of the events that are meant, in the order of their positions. Raises `NotExplained`."""
    ids = table.table.scan(["position", "event_id", "replay_id"])
    replay_ids = {event.encode(), *([bytes.fromhex(event)] if _is_hex(event) else [])}
    ways = (
        pc.equal(ids["event_id"], event),
        pc.is_in(ids["replay_id"], pa.array(replay_ids, pa.binary())),
        pc.equal(pc.binary_join_element_wise("@", ids["position"].cast(pa.string()), ""), event),
    )
    found = next((positions for way in ways if (positions := ids.filter(way)["position"].to_pylist())), None)
    if found is None:
        raise NotExplained.no_event(channel, event, table.last_position(channel))
    return table.table.scan(None, f"position in ({', '.join(map(str, found))})").sort_by("position")


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and bool(text) and all(each in "0123456789abcdefABCDEF" for each in text)
