"""What was spent of the org's API requests, by purpose, and what waits for the next of them: a note in the warehouse,
so that it counts for every process that works on it. Without the note everything begins with a whole share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock

PATH = "channels_read/requests.json"
HOUR_MS, DAY_HOURS = 3_600_000, 24
FORMULAS, POLLS = "formulas", "polls"
"""What requests are made for; snapshots ask the org itself before each copy, whose price is a Bulk job."""


@dataclass(frozen=True)
class Postponed:
    """Objects that wait, why, and since when some do (epoch ms, by our clock)."""

    why: str
    since_ms: int
    objects: tuple[str, ...] = ()


@dataclass
class RequestLedger:
    """`spent`: purpose -> hour (hours since the epoch) -> requests; `allowance`: what the org said last (requests a
    day, those left, epoch ms); `postponed`: by purpose."""

    spent: dict[str, dict[int, int]] = field(default_factory=dict)
    allowance: tuple[int, int, int] | None = None
    postponed: dict[str, Postponed] = field(default_factory=dict)

    def spend(self, purpose: str, requests: int, now_ms: int) -> None:
        """Count requests; those of more than a day ago are forgotten."""
        hour, before = now_ms // HOUR_MS, self.spent.get(purpose, {})
        counted = {**before, hour: before.get(hour, 0) + requests}
        self.spent[purpose] = {each: count for each, count in counted.items() if hour - DAY_HOURS < each <= hour}

    def spent_in_a_day(self, purpose: str, now_ms: int) -> int:
        """Return the requests of the last 24 hours."""
        return self._spent(purpose, now_ms, DAY_HOURS)

    def spent_in_an_hour(self, purpose: str, now_ms: int) -> int:
        """Return the requests since the hour began."""
        return self._spent(purpose, now_ms, 1)

    def _spent(self, purpose: str, now_ms: int, hours: int) -> int:
        hour = now_ms // HOUR_MS
        return sum(count for each, count in self.spent.get(purpose, {}).items() if hour - hours < each <= hour)

    def postpone(self, purpose: str, why: str, objects: tuple[str, ...], now_ms: int) -> None:
        """Note that objects wait; since when does the first note say that was not taken back."""
        before = self.postponed.get(purpose)
        self.postponed[purpose] = Postponed(why, before.since_ms if before else now_ms, objects)


def read_ledger(warehouse: Warehouse) -> RequestLedger:
    """Return the ledger; an empty one where there is none, or it cannot be read. Raises what `read_note` raises."""
    return read_json(warehouse, PATH, _ledger, otherwise=RequestLedger())


def _ledger(noted: Any) -> RequestLedger:
    return RequestLedger(
        {purpose: _by_hour(spent) for purpose, spent in noted.get("spent", {}).items()},
        tuple(noted["allowance"]) if noted.get("allowance") else None,
        {
            purpose: Postponed(each["why"], int(each["since_ms"]), tuple(each["objects"]))
            for purpose, each in noted.get("postponed", {}).items()
        },
    )


def note_ledger(warehouse: Warehouse, ledger: RequestLedger, *purposes: str) -> None:
    """Write what is said of these purposes, and the allowance, into the ledger as others have left it. That the
    warehouse does not take it fails no reading."""
    with failing_nothing("how many API requests were made"):
        newest = read_ledger(warehouse)
        newest.allowance = max(ledger.allowance or (0, 0, 0), newest.allowance or (0, 0, 0), key=_said_at)
        for purpose in purposes:
            newest.spent[purpose] = ledger.spent.get(purpose, {})
            newest.postponed.pop(purpose, None)
            newest.postponed |= {purpose: ledger.postponed[purpose]} if purpose in ledger.postponed else {}
        put_json(warehouse, PATH, asdict(newest))


def _said_at(allowance: tuple[int, int, int]) -> int:
    """Return when the org said it (epoch ms); what a clock that was ahead noted is older than all else."""
    return allowance[2] if allowance[2] <= clock.now_ms() else 0


def _by_hour(spent: Mapping[str, int]) -> dict[int, int]:
    return {int(hour): int(count) for hour, count in spent.items()}
