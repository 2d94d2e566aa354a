"""`rolling_audits`: which records were compared with the org last, what differed, and the API requests that it took.

A comparison is two rows: what it may cost is noted before it begins, so that neither a crash nor two runs at once spend
more than the budget; what it came to, and what it cost less, after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc

NAME = "rolling_audits"
Row = dict[str, Any]
KEPT = timedelta(days=3)
"""How long rows are kept: all of them are read by each run, of which there may be 3,000 in a day; the budget counts one
day. Of each entity the last look, the last one with a window and the last one that ended a pass are kept however
old."""

ROLLING_AUDITS = pa.schema(
    [
        ("entity_name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("requests", pa.int64()),
        ("up_to_id", pa.string()),
        ("ended_pass", pa.bool_()),
        ("compared", pa.int64()),
        ("suspicions", pa.string()),
        ("allowance", pa.int64()),
        ("remaining", pa.int64()),
    ]
)
"""`entity_name` is null in rows that only count requests. `up_to_id`: the next window begins with it; empty when the
last one reached the end. `ended_pass`: this look's window was that one, or could not be read, so that others have
their turn. A look had a window where it ended a pass, or where the next window begins elsewhere than before it."""


@dataclass(frozen=True)
class Suspicion:
    """Something that differed when the stream may not have reported it yet: which record, what, a hash of what the org
    showed, and when (epoch ms). It counts when it is still so after the stream has reported all until then."""

    record_id: str
    what: str
    in_org: str
    at_ms: int


@dataclass(frozen=True)
class LastComparison:
    """What was compared of an entity last."""

    entity: str
    at_ms: int
    up_to_id: str = ""
    ended_pass: bool = False
    compared: int = 0
    suspicions: tuple[Suspicion, ...] = ()


@dataclass(frozen=True)
class Allowance:
    """The org's daily API requests, and what was left of them when it was asked last."""

    maximum: int
    remaining: int
    asked_at_ms: int


class RollingAudits:
    """The table as it is now; empty when there is none yet."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        table = Table.open(warehouse, NAME)
        self._rows: list[Row] = table.frame().sort("at").to_dicts() if table else []

    def looks(self) -> dict[str, LastComparison]:
        """Return the last look of each entity."""
        return {entity: _look(row) for entity, row in self._last_looks().items()}

    def passes_ended(self) -> dict[str, int]:
        """Return when the last window of an entity's last whole pass was compared (epoch ms)."""
        return {entity: epoch_ms(row["at"]) for entity, row in self._last_passes().items()}

    def windows(self) -> dict[str, int]:
        """Return when an entity's last window was compared (epoch ms), in the order of these times."""
        return {entity: epoch_ms(row["at"]) for entity, row in self._last_windows().items()}

    def _last_looks(self) -> dict[str, Row]:
        return {row["entity_name"]: row for row in self._rows if row["entity_name"]}

    def _last_passes(self) -> dict[str, Row]:
        return {row["entity_name"]: row for row in self._rows if row["entity_name"] and row["ended_pass"]}

    def _last_windows(self) -> dict[str, Row]:
        found, begins = dict[str, Row](), dict[str, str]()
        for row in self._rows:
            entity, up_to = row["entity_name"], row["up_to_id"]
            if entity and (row["ended_pass"] or up_to != begins.get(entity, "")):
                found.pop(entity, None)
                found[entity] = row
            begins[entity] = up_to
        return found

    def requests_since(self, at_ms: int) -> int:
        """Count the requests after a time."""
        since = utc(at_ms)
        return sum(row["requests"] for row in self._rows if row["at"] > since)

    def allowance(self) -> Allowance | None:
        """Return what the org said last."""
        known = [row for row in self._rows if row["allowance"] is not None]
        return Allowance(known[-1]["allowance"], known[-1]["remaining"], epoch_ms(known[-1]["at"])) if known else None

    def count_requests(self, requests: int, at_ms: int, allowance: Allowance | None = None) -> None:
        """Note requests that are about to be made."""
        known = (allowance.maximum, allowance.remaining) if allowance else (None, None)
        self._append([_row(LastComparison("", at_ms), requests, *known)])

    def note(self, looks: Sequence[LastComparison], requests: int, at_ms: int) -> None:
        """Note what came of them; `requests`: beyond those that were counted before, or less than none."""
        self._append([*(_row(each, 0) for each in looks), _row(LastComparison("", at_ms), requests)])

    @retry_on_conflict
    def forget_old(self, now_ms: int) -> None:
        """Delete rows that are older than `KEPT`, once there are some that are a day older than that."""
        until = utc(now_ms) - KEPT
        valid = [each for of in (self._last_looks, self._last_passes, self._last_windows) for each in of().values()]
        kept = {row["at"] for row in valid if row["at"] < until}
        gone = [row for row in self._rows if row["at"] < until and row["at"] not in kept]
        table = Table.open(self._warehouse, NAME)
        if table is not None and gone and gone[0]["at"] < until - timedelta(days=1):
            others = f" and at not in ({', '.join(map(literal_time, sorted(kept)))})" if kept else ""
            table.delete_rows(f"at < {literal_time(until)}{others}", {})
            self._rows = [row for row in self._rows if row["at"] >= until or row["at"] in kept]

    @retry_on_conflict
    def _append(self, rows: list[Row]) -> None:
        table = Table.open_or_create(self._warehouse, NAME, ROLLING_AUDITS)
        table.append(pa.Table.from_pylist(rows, schema=ROLLING_AUDITS), {}, {})
        self._rows += rows


def _row(look: LastComparison, requests: int, maximum: int | None = None, remaining: int | None = None) -> Row:
    """Return the row of a look, or with no entity one that only counts requests."""
    return {
        "entity_name": look.entity or None,
        "at": utc(look.at_ms),
        "requests": requests,
        "up_to_id": look.up_to_id,
        "ended_pass": look.ended_pass,
        "compared": look.compared,
        "suspicions": json.dumps([asdict(each) for each in look.suspicions]),
        "allowance": maximum,
        "remaining": remaining,
    }


def _look(row: Row) -> LastComparison:
    suspicions = tuple(Suspicion(**each) for each in json.loads(row["suspicions"]))
    at_ms = epoch_ms(row["at"])
    return LastComparison(row["entity_name"], at_ms, row["up_to_id"], row["ended_pass"], row["compared"], suspicions)
