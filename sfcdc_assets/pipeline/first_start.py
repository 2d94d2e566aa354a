"""What a first start takes of the org's allowances, estimated before any of it is spent.

An entity that was never copied is read as a whole by one Bulk job, and a channel that was never polled begins at
EARLIEST, with the events of the last three days. How many these are no resource tells; each record that changed in that
time had one at least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.query import count
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.snapshot.pages import MOST_ROWS_PER_PAGE

EVENTS_KEPT = timedelta(hours=72)
_REQUESTS_OF_A_JOB = 8
"""Describe, View All, the job, and looks at it before it is complete."""


@dataclass(frozen=True)
class EntityCost:
    """An entity that was never copied: its records, those in the recycle bin too, and those that changed while events
    of it are kept."""

    entity: str
    rows: int
    changed: int


@dataclass(frozen=True)
class FirstStart:
    """Of all entities that were never copied. `from_earliest`: retained events are read too."""

    entities: tuple[EntityCost, ...] = ()
    from_earliest: bool = True

    @property
    def jobs(self) -> int:
        """Bulk query jobs."""
        return len(self.entities)

    @property
    def rows(self) -> int:
        """Records to read."""
        return sum(each.rows for each in self.entities)

    @property
    def requests(self) -> int:
        """API requests, about."""
        return sum(_REQUESTS_OF_A_JOB + -(-each.rows // MOST_ROWS_PER_PAGE) for each in self.entities)

    @property
    def events(self) -> int:
        """Delivered events, at least."""
        return sum(each.changed for each in self.entities) if self.from_earliest else 0


def never_copied(warehouse: Warehouse, entities: Iterable[str]) -> tuple[str, ...]:
    """Those without a complete snapshot. Reads the tables only."""
    found = []
    for entity in entities:
        taken = Snapshots.open(warehouse, entity)
        if taken is None or not taken.complete_number():
            found.append(entity)
    return tuple(found)


def first_start(session: OrgSession, entities: Iterable[str], now_ms: int, *, from_earliest: bool) -> FirstStart:
    """Two API requests an entity. One that may not be read costs nothing, and is told by others."""
    since = datetime.fromtimestamp(now_ms / 1000, UTC) - EVENTS_KEPT
    costs = []
    for entity in entities:
        try:
            rows = count(session, entity, include_deleted=True)
            lately = f"SystemModstamp >= {since:%Y-%m-%dT%H:%M:%SZ}"
            changed = count(session, entity, lately, include_deleted=True) if from_earliest else 0
        except RequestRefused:
            continue
        costs.append(EntityCost(entity, rows, changed))
    return FirstStart(tuple(costs), from_earliest)


def sentence(start: FirstStart, left: Mapping[str, int]) -> str:
    """What it takes, for a person. `left`: what the org still allows today, by the name of the allowance."""

    def of(need: int, name: str) -> str:
        return f"{need:,}" + (f" of {left[name]:,} left" if name in left else "")

    events = (
        f"at least {of(start.events, 'DailyDeliveredPlatformEvents')} delivered events"
        if start.from_earliest
        else "no retained events"
    )
    return (
        f"{start.jobs:,} entities with {start.rows:,} records were never copied. The first start takes "
        f"{of(start.jobs, 'DailyBulkV2QueryJobs')} Bulk jobs, about {of(start.requests, 'DailyApiRequests')} API "
        f"requests and {events}."
    )
