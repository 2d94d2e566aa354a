"""What the org last said of its allowances, as a note in the warehouse: who shows how the warehouse stands asks nothing
of the org."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse

PATH = "channels_read/allowances.json"
NOTED = ("DailyApiRequests", "DailyBulkV2QueryJobs", "DailyDeliveredPlatformEvents")
"""Those that a copy draws on, of the sixty that an org has."""


@dataclass(frozen=True)
class AllowanceNote:
    """What the org allows in 24 hours, what was left when it was asked, and when that was (epoch ms, UTC)."""

    maximum: int
    remaining: int
    asked_at_ms: int


def read_allowances(warehouse: Warehouse) -> dict[str, AllowanceNote]:
    """Return the notes by the names that Salesforce has; none where there are none, or they cannot be read. Raises what
    `read_note` raises."""
    return read_json(
        warehouse, PATH, lambda noted: {name: AllowanceNote(**each) for name, each in noted.items()}, otherwise={}
    )


def note_allowances(warehouse: Warehouse, limits: Mapping[str, tuple[int, int]], now_ms: int) -> None:
    """Replace the notes by what the org has just said: name -> (maximum, remaining). That the warehouse does not take
    them fails nothing."""
    notes = {name: AllowanceNote(*limits[name], now_ms) for name in NOTED if name in limits}
    if notes:
        with failing_nothing("what the org allows"):
            put_json(warehouse, PATH, {name: asdict(each) for name, each in notes.items()})
