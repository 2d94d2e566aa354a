"""`objects`, `fields`, `picklist_values`, `relationships` and `record_types`: what the org's objects look like, and
what they looked like before, as describe said each time that it was asked.

A row is valid from the describe that first showed it to the one that did not any more. Nothing else depends on these
tables: one that cannot be written is left as it is, and the next describe tries again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.object_shape import OBJECT, SHAPE_TABLES, ObjectShape, ShapeTable

VALID_FROM, VALID_TO = "_valid_from", "_valid_to"
_TIME = pa.timestamp("us", "UTC")
_TICK = timedelta(microseconds=1)

KEPT_WITHIN_SECONDS = 2.0

log = logging.getLogger(__name__)


def versioned(table: ShapeTable) -> pa.Schema:
    """Return the columns of the Delta table."""
    return pa.schema([*table.schema, (VALID_FROM, _TIME), (VALID_TO, _TIME)])


def keep_shapes(warehouse: Warehouse, shapes: Sequence[ObjectShape], now_ms: int) -> None:
    """Bring the tables to what objects look like now (epoch ms, UTC), in one commit of each table for all of them.

    What an object's rows are is a number among the table's transaction versions, so a describe that says the same reads
    no row and commits nothing.
    """
    for table in SHAPE_TABLES if shapes else ():
        try:
            _keep(warehouse, table, shapes, now_ms)
        except SfcdcError as error:
            log.warning("%s is not brought up to date; the next describe tries again. %s", table.name, error)


class ShapeKeeper:
    """Keeps what many objects look like that are described one after another: all of each `KEPT_WITHIN_SECONDS` in one
    commit of each table. A first copy of 500 objects made 2,500 commits otherwise.

    Threads may share it.
    """

    def __init__(self, warehouse: Warehouse, seconds: float = KEPT_WITHIN_SECONDS) -> None:
        self._warehouse = warehouse
        self._seconds = seconds
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._shapes: list[ObjectShape] = []
        self._timer: threading.Timer | None = None

    def add(self, shape: ObjectShape) -> None:
        """Keep what an object looks like now, soon."""
        with self._lock:
            self._shapes.append(shape)
            if self._timer is None:
                self._timer = threading.Timer(self._seconds, self.close)
                self._timer.start()

    def close(self) -> None:
        """Keep everything that was added."""
        with self._writing:  # what was added first is written first
            with self._lock:
                shapes, self._shapes = self._shapes, []
                timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            # Of an object that was described twice the last counts.
            keep_shapes(self._warehouse, list({each.entity: each for each in shapes}.values()), clock.now_ms())


@retry_on_conflict
def _keep(warehouse: Warehouse, of: ShapeTable, shapes: Sequence[ObjectShape], now_ms: int) -> None:
    table = Table.open(warehouse, of.name)
    prints = {shape.entity: shape.fingerprint(of) for shape in shapes}
    news = [
        shape for shape in shapes if table is None or table.transaction_version(shape.entity) != prints[shape.entity]
    ]
    if not news:
        return
    table = table or Table.open_or_create(warehouse, of.name, versioned(of))
    listed = ", ".join(f"'{each.entity}'" for each in news if table.transaction_version(each.entity) is not None)
    known: dict[str, list[dict[str, Any]]] = {}
    for row in table.rows(predicate=f"{OBJECT} in ({listed})") if listed else ():
        known.setdefault(row[OBJECT], []).append(row)
    now = utc(now_ms)
    changed = [_changed(of, shape, known.get(shape.entity, []), now) for shape in news]
    rows = [row for each in changed for row in each]
    transactions = {shape.entity: prints[shape.entity] for shape in news}
    written = pa.Table.from_pylist(rows, schema=versioned(of))
    if any(row[VALID_TO] for row in rows):
        table.upsert(written, (*of.key, VALID_FROM), transactions)
    else:
        table.append(written, transactions, {})


def _changed(
    of: ShapeTable, shape: ObjectShape, known: Sequence[dict[str, Any]], now: datetime
) -> list[dict[str, Any]]:
    """Return the rows that end now, with their end, and those that begin; after all that was before, also by a clock
    that was set back."""
    last = max((row[VALID_TO] or row[VALID_FROM] for row in known), default=None)
    now = now if last is None else max(now, last + _TICK)
    current = {tuple(row[name] for name in of.key): row for row in known if row[VALID_TO] is None}
    said = {tuple(row[name] for name in of.key): dict(row) for row in shape.rows[of.name]}
    same = {key for key, row in said.items() if key in current and all(row[name] == current[key][name] for name in row)}
    ended = [{**row, VALID_TO: now} for key, row in current.items() if key not in same]
    return ended + [{**row, VALID_FROM: now, VALID_TO: None} for key, row in said.items() if key not in same]
