"""What a first start takes of the org's allowances, estimated before any of it is spent.

An entity that was never copied is read as a whole by one Bulk job, and a channel that was never polled begins at
EARLIEST, with the events of the last three days. How many these are no resource tells; each record that changed in that
time had one at least.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sfcdc_assets.lake.tables.snapshots import LAYER, Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import NOW, NOW_ALL, PollTimeouts
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.errors import RequestRefused
from sfcdc_assets.salesforce.query import count
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.setting_values import as_set_here
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
    """Return those without a complete snapshot. Reads the tables only."""
    found = []
    for entity in entities:
        taken = Snapshots.open(warehouse, entity)
        if taken is None or not taken.complete_number():
            found.append(entity)
    return tuple(found)


def is_first_start(warehouse: Warehouse) -> bool:
    """No entity was ever copied, or begun to be. Reads the tables only."""
    return not warehouse.entities(LAYER)


def first_timeouts(warehouse: Warehouse, *, until_caught_up: bool) -> PollTimeouts:
    """Return the timeouts of the first reading of a sync. It does not wait for the last transaction's end: what is
    known to be complete is worked on meanwhile. `until_caught_up`: of polled objects all are asked, but where nothing
    was copied yet."""
    return NOW_ALL if until_caught_up and not is_first_start(warehouse) else NOW


def first_start(
    session: OrgSession,
    entities: Iterable[str],
    now_ms: int,
    *,
    from_earliest: bool,
    polled: Collection[str] = (),
) -> FirstStart:
    """Two API requests an entity, one for one of those that are `polled` and have no events. One that may not be read
    costs nothing, and is reported by others."""
    since = utc(now_ms) - EVENTS_KEPT
    costs = []
    for entity in entities:
        try:
            rows = count(session, entity, include_deleted=True)
            lately = f"SystemModstamp >= {since:%Y-%m-%dT%H:%M:%SZ}"
            has_events = from_earliest and entity not in polled
            changed = count(session, entity, lately, include_deleted=True) if has_events else 0
        except RequestRefused:
            continue
        costs.append(EntityCost(entity, rows, changed))
    return FirstStart(tuple(costs), from_earliest)


def sentence(start: FirstStart, left: Mapping[str, int]) -> str:
    """Say what it takes, for a person. `left`: what the org still allows today, by the name of the allowance."""

    def of(need: int, what: str, allowance: str) -> str:
        return f"{need:,} {what}" + (f" ({left[allowance]:,} left today)" if allowance in left else "")

    jobs = of(start.jobs, "Bulk jobs", "DailyBulkV2QueryJobs")
    requests = of(start.requests, "API requests", "DailyApiRequests")
    deliveries = of(start.events, "event deliveries", "DailyDeliveredPlatformEvents")
    events = (
        f", and at least {deliveries} for the events of the last 72 hours; SFCDC_REPLAY_PRESET=LATEST leaves these out."
        if start.from_earliest
        else ". Events of the last 72 hours are left out (SFCDC_REPLAY_PRESET=LATEST)."
    )
    copied = f"First start: copies {counted(start.jobs, 'entity')} with {counted(start.rows, 'record')}."
    return as_set_here(f"{copied} That takes {jobs} and about {requests}{events}")
