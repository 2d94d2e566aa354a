"""`rolling_audits`: which records were compared with the org last, what differed, and the API requests that it took.

A comparison is two rows: what it may cost is noted before it begins, so that neither a crash nor two runs at once spend
more than the budget; what it came to, and what it cost less, after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import epoch_ms, utc

NAME = "rolling_audits"
KEPT = timedelta(days=30)
"""How long rows are kept: all of them are read by each run. An entity whose last look is older begins again."""

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
last one reached the end. `ended_pass`: this look's window was that one."""


@dataclass(frozen=True)
class Suspicion:
    """Something that differed when the stream may not have reported it yet: which record, what, a hash of what the org
    showed, and when (epoch ms). It counts when it is still so after the stream has reported all until then."""

    record_id: str
    what: str
    in_org: str
    at_ms: int


@dataclass(frozen=True)
class Look:
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
        self._rows = table.scan().sort_by("at").to_pylist() if table else []

    def looks(self) -> dict[str, Look]:
        """Return the last look of each entity."""
        return {row["entity_name"]: _look(row) for row in self._rows if row["entity_name"]}

    def passes_ended(self) -> dict[str, int]:
        """Return when the last window of an entity's last whole pass was compared (epoch ms)."""
        ended = (row for row in self._rows if row["entity_name"] and row["ended_pass"])
        return {row["entity_name"]: epoch_ms(row["at"]) for row in ended}

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
        self._append([_row(Look("", at_ms), requests, *known)])

    def note(self, looks: Sequence[Look], requests: int, at_ms: int) -> None:
        """Note what came of them; `requests`: beyond those that were counted before, or less than none."""
        self._append([*(_row(each, 0) for each in looks), _row(Look("", at_ms), requests)])

    @retry_on_conflict
    def forget_old(self, now_ms: int) -> None:
        """Delete rows that are older than `KEPT`, once there are some that are a day older than that."""
        until = utc(now_ms) - KEPT
        table = Table.open(self._warehouse, NAME)
        if table is not None and self._rows and self._rows[0]["at"] < until - timedelta(days=1):
            table.delete_rows(f"at < {literal_time(until)}", {})
            self._rows = [row for row in self._rows if row["at"] >= until]

    @retry_on_conflict
    def _append(self, rows: list[dict[str, object]]) -> None:
        table = Table.open_or_create(self._warehouse, NAME, ROLLING_AUDITS)
        table.append(pa.Table.from_pylist(rows, schema=ROLLING_AUDITS), {}, {})
        self._rows += rows


def _row(look: Look, requests: int, maximum: int | None = None, remaining: int | None = None) -> dict[str, object]:
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


def _look(row: dict[str, object]) -> Look:
    suspicions = tuple(Suspicion(**each) for each in json.loads(str(row["suspicions"])))
    at = row["at"]
    assert isinstance(at, datetime)
    return Look(
        str(row["entity_name"]),
        epoch_ms(at),
        str(row["up_to_id"]),
        bool(row["ended_pass"]),
        int(str(row["compared"])),
        suspicions,
    )
