"""`rolling_audits`: which records were compared with the org last, what differed, and the API requests that it took.

A comparison is two rows: what it may cost is noted before it begins, so that neither a crash nor two runs at once spend
more than the budget; what it came to, and what it cost less, after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import pyarrow as pa

from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse

NAME = "rolling_audits"

ROLLING_AUDITS = pa.schema(
    [
        ("entity_name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("requests", pa.int64()),
        ("up_to_id", pa.string()),
        ("compared", pa.int64()),
        ("suspicions", pa.string()),
        ("allowance", pa.int64()),
        ("remaining", pa.int64()),
    ]
)
"""`entity_name` is null in rows that only count requests. `up_to_id`: the next window begins with it; empty when the
last one reached the end."""


@dataclass(frozen=True)
class Suspicion:
    """Something that differed when the stream may not have told of it yet: which record, what, a hash of what the org
    showed, and when (epoch ms). It counts when it is still so after the stream has told of all until then."""

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
        """The last of each entity."""
        return {row["entity_name"]: _look(row) for row in self._rows if row["entity_name"]}

    def passes_ended(self) -> dict[str, int]:
        """When the last window of an entity's last whole pass was compared (epoch ms)."""
        return {row["entity_name"]: _ms(row["at"]) for row in self._rows if row["entity_name"] and not row["up_to_id"]}

    def requests_since(self, at_ms: int) -> int:
        """Requests that were counted after a time."""
        since = _time(at_ms)
        return sum(row["requests"] for row in self._rows if row["at"] > since)

    def allowance(self) -> Allowance | None:
        """What the org told last."""
        told = [row for row in self._rows if row["allowance"] is not None]
        return Allowance(told[-1]["allowance"], told[-1]["remaining"], _ms(told[-1]["at"])) if told else None

    def count_requests(self, requests: int, at_ms: int, allowance: Allowance | None = None) -> None:
        """Note requests that are about to be made."""
        told = (allowance.maximum, allowance.remaining) if allowance else (None, None)
        self._append([_row(None, at_ms, requests, "", 0, (), *told)])

    def note(self, looks: Sequence[Look], requests: int, at_ms: int) -> None:
        """Note what came of them; `requests`: beyond those that were counted before, or less than none."""
        rows = [_row(each.entity, each.at_ms, 0, each.up_to_id, each.compared, each.suspicions) for each in looks]
        self._append([*rows, _row(None, at_ms, requests, "", 0, ())])

    @retry_on_conflict
    def _append(self, rows: list[dict[str, object]]) -> None:
        table = Table.open_or_create(self._warehouse, NAME, ROLLING_AUDITS)
        table.append(pa.Table.from_pylist(rows, schema=ROLLING_AUDITS), {}, {})
        self._rows += rows


def _row(
    entity: str | None,
    at_ms: int,
    requests: int,
    up_to_id: str,
    compared: int,
    suspicions: Sequence[Suspicion],
    maximum: int | None = None,
    remaining: int | None = None,
) -> dict[str, object]:
    return {
        "entity_name": entity,
        "at": _time(at_ms),
        "requests": requests,
        "up_to_id": up_to_id,
        "compared": compared,
        "suspicions": json.dumps([asdict(each) for each in suspicions]),
        "allowance": maximum,
        "remaining": remaining,
    }


def _look(row: dict[str, object]) -> Look:
    suspicions = tuple(Suspicion(**each) for each in json.loads(str(row["suspicions"])))
    at = row["at"]
    assert isinstance(at, datetime)
    return Look(str(row["entity_name"]), _ms(at), str(row["up_to_id"]), int(str(row["compared"])), suspicions)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
