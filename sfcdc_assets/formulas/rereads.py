"""Which formula values of an entity are read again next, within a budget of API requests, and which have to wait.

The most urgent first: records that changed, records that refer to a changed parent, records whose values were never
read, then, where a formula names TODAY() or NOW(), what was read before today, and last what is older than the number
of days after which each value is read again: what changes unseen is found then. Where it costs no more requests, the
entity is read whole by a Bulk job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class Reason(StrEnum):
    """Why a record's values are read again, the most urgent first."""

    RECORD_CHANGED = "record_changed"
    PARENT_CHANGED = "parent_changed"
    NEVER_READ = "never_read"
    NEW_DAY = "new_day"
    AGE = "age"


_URGENCY = {reason: place for place, reason in enumerate(Reason)}


@dataclass(frozen=True)
class Limits:
    """What a plan may cost. `age`: after this time any value is read again (SFCDC_FORMULA_DAYS)."""

    requests: int
    age: timedelta
    ids_per_request: int = 2_000
    requests_of_job: int = 8
    rows_per_page: int = 25_000

    @property
    def most_ids(self) -> int:
        """How many records the budget is enough for, by their ids."""
        return self.requests * self.ids_per_request

    def by_ids(self, records: int) -> int:
        """Return the requests for so many records, by their ids."""
        return -(-records // self.ids_per_request)

    def whole(self, records: int) -> int:
        """Return the requests for an entity of so many records, by a Bulk job."""
        return self.requests_of_job + -(-records // self.rows_per_page)


@dataclass(frozen=True)
class Values:
    """The table of an entity's formula values, as far as a plan needs it."""

    records: int
    """Living records of the entity."""
    unread: int
    """Of these, how many were never read, or with another formula."""
    before_today: int
    """How many were read before the day began."""
    too_old: int
    """How many were read longer ago than `Limits.age`."""
    oldest: Sequence[tuple[str, datetime | None]] = ()
    """Ids and times of reading, never read ones first (None), then the oldest: at least `Limits.most_ids` of them, or
    all."""


@dataclass(frozen=True)
class RereadPlan:
    """What is read next: the whole entity, or these records."""

    whole: bool = False
    ids: Sequence[str] = ()
    requests: int = 0
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    """How many records are read for which reason; one with several counts for the most urgent."""
    postponed: Mapping[Reason, int] = field(default_factory=dict)
    """How many have to wait for the next budget."""


def plan_rereads(
    values: Values,
    changed: Sequence[str],
    of_changed_parents: Sequence[str],
    limits: Limits,
    *,
    now: datetime,
    day_began: datetime | None,
) -> RereadPlan:
    """Return what to read. `day_began`: where a formula names the time, when the current day began for the user whose
    login reads; None where none does."""
    counts = {
        Reason.NEVER_READ: values.unread,
        Reason.NEW_DAY: 0 if day_began is None else values.before_today,
        # With a formula that names the time, what is older than a day is read today anyway.
        Reason.AGE: values.too_old if day_began is None else 0,
    }
    listed = dict.fromkeys(changed, Reason.RECORD_CHANGED)
    for record_id in of_changed_parents:
        listed.setdefault(record_id, Reason.PARENT_CHANGED)
    for record_id, read_at in values.oldest:
        reason = _reason(read_at, now - limits.age, day_began)
        if reason is not None:
            counts[reason] -= 1
            listed.setdefault(record_id, reason)
    due = Counter(listed.values()) + Counter(counts)
    whole = limits.whole(values.records)
    if due and whole <= min(limits.by_ids(due.total()), limits.requests):
        return RereadPlan(whole=True, requests=whole, reasons=due)
    urgent = sorted(listed, key=lambda record_id: _URGENCY[listed[record_id]])[: limits.most_ids]
    taken = Counter(listed[record_id] for record_id in urgent)
    return RereadPlan(ids=tuple(urgent), requests=limits.by_ids(len(urgent)), reasons=taken, postponed=due - taken)


def _reason(read_at: datetime | None, too_old: datetime, day_began: datetime | None) -> Reason | None:
    if read_at is None:
        return Reason.NEVER_READ
    if day_began is not None:
        return Reason.NEW_DAY if read_at < day_began else None
    return Reason.AGE if read_at < too_old else None
