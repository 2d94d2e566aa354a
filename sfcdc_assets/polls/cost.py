"""What polling an object takes of the org's day, in API requests."""

from __future__ import annotations

from sfcdc_assets.polls.due import Asked, intervals_between
from sfcdc_assets.polls.known_objects import PARENTS_PER_QUERY
from sfcdc_assets.polls.sweep import PARTS
from sfcdc_assets.salesforce.bulk_query import CALLS_PER_JOB
from sfcdc_assets.salesforce.composite_query import MOST_QUERIES, PAGE_ROWS
from sfcdc_assets.snapshot.pages import MOST_ROWS_PER_PAGE

PARENTS_PER_PAGE = MOST_QUERIES * PARENTS_PER_QUERY
_DAY = 86_400
_NEVER_MS = 2**62


def requests_a_day(changes: float, seconds: float) -> float:
    """Return about how many requests a day an object takes that is polled beside others every so many `seconds`, and
    has so many changed records a day: its part of requests that ask five objects, further pages of many changes, and
    its part of a count. Quiet objects are asked less often."""
    asked = _DAY / (seconds * _factor(changes, seconds))
    return asked / MOST_QUERIES + changes / PAGE_ROWS + 1 / PARTS


def requests_to_compare(records: int, hours: float) -> float:
    """Return about how many requests a day it takes to compare an object of so many records as a whole every so many
    `hours`: by a query with one before it that is tried, or by a Bulk job."""
    is_small = records <= PAGE_ROWS
    return (2 if is_small else CALLS_PER_JOB + -(-records // MOST_ROWS_PER_PAGE)) * 24 / hours


def requests_of_parents(parents: int, hours: float) -> float:
    """Return about how many requests a day it takes to compare an object that is read through so many parents: for each
    page of these one, and one for their records, beside the one that is tried."""
    return (1 + 2 * max(1, -(-parents // PARENTS_PER_PAGE))) * 24 / hours


def _factor(changes: float, seconds: float) -> int:
    """Return how many intervals lie between two polls for most of the day: changes are taken to be spread over it."""
    quiet_ms = int(_DAY * 1000 / changes) if changes > 0 else _NEVER_MS
    return intervals_between(Asked(quiet_ms=quiet_ms), int(seconds * 1000))
