"""`quarantine`: events that could not be decoded, kept as received with the reason."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.landing import QUARANTINE
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "quarantine"


def quarantine(warehouse: Warehouse, rows: pa.Table, writer: str) -> int:
    """Append the rows that `writer` has not written before, and return how many those were.

    `writer` names an order of positions that only grows (a channel's landing, an entity's decoding), so a repeated
    attempt after a crash finds its rows already there.
    """
    if not rows.num_rows:
        return 0
    table = Table.open_or_create(warehouse, NAME, QUARANTINE)
    written = table.transaction_version(writer)
    if written is not None:
        rows = rows.filter(pc.field("position") > written)
    if rows.num_rows:
        table.append(rows, {writer: pc.max(rows["position"]).as_py()}, {})
    return rows.num_rows


def drop_quarantined_payloads(warehouse: Warehouse, channel: str, up_to: int) -> int:
    """Give up the payloads of a channel's events up to a position; returns how many there were. The reasons stay.

    Raises `ConcurrentCommit`.
    """
    table = Table.open(warehouse, NAME)
    quoted = channel.replace("'", "''")
    held = f"channel = '{quoted}' and position <= {up_to} and payload is not null"
    if table is None or not table.scan(["position"], held).num_rows:
        return 0
    return table.set_null("payload", held, {})
