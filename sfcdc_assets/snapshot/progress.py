"""How far the copy of one entity has come: the state that is stored together with each page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class SnapshotProgress:
    """A snapshot between two of its pages. Reading goes on exactly after it.

    `position` is the watermark (guarantee 8): the rows stand for every event of `channel` up to it; events after it
    apply on top. It was noted before the job began, so no page can be older than it.
    """

    snapshot_number: int
    entity: str
    channel: str
    position: int
    job_id: str
    next_locator: str | None
    """Locator of the page to read next; None before the first page, and when complete."""
    pages_done: int
    rows_done: int
    complete: bool
    started_at_ms: int
    """Epoch milliseconds UTC."""
    fields: tuple[str, ...]
    """API names of the fields asked for: the snapshot says nothing about a column that is not among them."""
    rows_expected: int | None = None
    """Rows of the whole result, known when the org has finished the job."""
    query: str | None = None
    """Where the object is read by queries, and `job_id` is empty: the SOQL of all its records."""
    asked_at_ms: int | None = None
    """When the job began by the org's own clock, epoch ms: what was committed long before is in its rows."""

    def to_json(self) -> dict[str, Any]:
        """JSON-able values only; `from_json` gives an equal progress back."""
        return asdict(self) | {"fields": list(self.fields)}

    @staticmethod
    def from_json(stored: dict[str, Any]) -> SnapshotProgress:
        """Read what was stored as JSON."""
        return SnapshotProgress(**{**stored, "fields": tuple(stored["fields"])})
