"""`quarantine`: events that could not be decoded, kept as received with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.raw_event_rows import QUARANTINE
from sfcdc_assets.lake.delta.conditions import literal
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "quarantine"


@dataclass(frozen=True)
class Delivery:
    """An event as it was delivered: its position, its replay id, and what distinguishes it from others of that id."""

    position: int
    replay_id: bytes
    mark: str


def quarantine(warehouse: Warehouse, rows: pa.Table, writer: str) -> int:
    """Append the rows that `writer` has not written before, and return how many rows there are.

    `writer` names an order of positions that only grows (a channel's landing, an entity's decoding). Events without a
    header are written before the commit of `raw_events` that gives them their positions; when that does not come about,
    another attempt may give them others, or their positions to others: see `settle_quarantine`.
    """
    if not rows.num_rows:
        return 0
    table = _open(warehouse)
    written = table.transaction_version(writer)
    if written is not None:
        rows = _unwritten(table, rows, written)
    if rows.num_rows:
        table.append(rows, {writer: max(written or 0, pc.max(rows["position"]).as_py())}, {})
    return int(rows.num_rows)


def settle_quarantine(
    warehouse: Warehouse, channel: str, checkpoint: int, landed_among: Callable[[str, Sequence[int]], Collection[int]]
) -> int:
    """Remove what an attempt wrote whose positions did not come true; returns how many rows that were.

    To be called after the channel's checkpoint was moved, with the position that it has then; `landed_among` says at
    which of some positions the channel has an event. Positions up to the checkpoint are given out for good: an event
    that was landed there, and one that is in quarantine at a higher position, is not at this one. Rows beyond the
    checkpoint are left alone, as they may be those of an attempt that is still at work. A crash before this is made up
    for by the next call. Costs nothing where nothing was quarantined since the last call.
    """
    table = Table.open(warehouse, NAME)
    if table is None or not checkpoint:
        return 0
    settled, written = table.transaction_version(_settled(channel)) or 0, table.transaction_version(channel) or 0
    if written <= settled or "delivery" not in table.schema.names:
        return 0
    of_channel = f"channel = {literal(channel)} and delivery is not null"
    rows = table.scan(["position", "delivery"], f"{of_channel} and position > {settled} and position <= {checkpoint}")
    untrue = _untrue(rows, landed_among(channel, rows["position"].to_pylist()))
    upper = min(checkpoint, written)
    if not untrue:
        table.append(table.schema.empty_table(), {_settled(channel): upper}, {})
        return 0
    either = " or ".join(
        f"(position = {position} and delivery = '{delivery}')" for position, delivery in sorted(untrue)
    )
    return table.delete_rows(f"{of_channel} and ({either})", {_settled(channel): upper})


def deliveries(warehouse: Warehouse, channel: str, first: int, last: int) -> list[Delivery]:
    """Return the events without a readable header at the positions from the first to the last, both included."""
    table = Table.open(warehouse, NAME)
    if table is None or "delivery" not in table.schema.names:
        return []
    within = f"channel = {literal(channel)} and position >= {first} and position <= {last}"
    rows = table.scan(["position", "delivery"], f"{within} and delivery is not null")
    untrue = _untrue(rows, set())
    return [
        Delivery(row["position"], bytes.fromhex(replay_id), mark)
        for row in rows.to_pylist()
        if (row["position"], row["delivery"]) not in untrue
        for replay_id, _, mark in [row["delivery"].partition(".")]
    ]


def _untrue(rows: pa.Table, landed: Collection[int]) -> set[tuple[int, str]]:
    """Return which rows stand at a position that another event has, or are of an event that stands at a higher one."""
    found = [(row["position"], row["delivery"]) for row in rows.to_pylist()]
    highest: dict[str, int] = {}
    for position, delivery in found:
        highest[delivery] = max(position, highest.get(delivery, 0))
    return {(position, of) for position, of in found if position in landed or position < highest[of]}


def _unwritten(table: Table, rows: pa.Table, written: int) -> pa.Table:
    """Rows beyond what was written, and rows of other events than those that were written at their positions."""
    if not pc.any(pc.is_valid(rows["delivery"])).as_py():
        return rows.filter(pc.field("position") > written)
    known = table.scan(["position", "delivery"], f"position >= {pc.min(rows['position']).as_py()}")
    pairs = {(row["position"], row["delivery"]) for row in known.to_pylist()}
    new = [(row["position"], row["delivery"]) not in pairs for row in rows.to_pylist()]
    return rows.filter(pa.array(new, pa.bool_()))


def _open(warehouse: Warehouse) -> Table:
    """Return the table, with all its columns."""
    table = Table.open_or_create(warehouse, NAME, QUARANTINE)
    table.add_columns([field for field in QUARANTINE if field.name not in table.schema.names])
    return table


def _settled(channel: str) -> str:
    return f"settled:{channel}"


def drop_quarantined_payloads(warehouse: Warehouse, channel: str, up_to: int) -> int:
    """Give up the payloads of a channel's events up to a position; returns how many there were. The reasons stay.

    Raises `ConcurrentCommit`.
    """
    table = Table.open(warehouse, NAME)
    held = f"channel = {literal(channel)} and position <= {up_to} and payload is not null"
    if table is None or not table.scan(["position"], held).num_rows:
        return 0
    return table.set_null("payload", held, {})
