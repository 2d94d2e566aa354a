"""Read many records although one of them spoils every answer it is in.

A request that fails for its size, or for what may be one record's fault, is asked again in halves, down to the one
record. So one that the org cannot give keeps none of the others from being read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import OrgUnavailable, QueryRefused, UnexpectedAnswer

Rows = Mapping[str, Mapping[str, Any] | None]

MOST_FAILURES = 64
"""So many failed requests are followed by halves; what fails after them is left for the next time. One record among
2,000 is found by eleven."""
PATIENCE = 15
"""After so many failures without any answer it is the org that fails, not a record."""
_OF_THE_QUERY = frozenset(
    {"INVALID_FIELD", "MALFORMED_QUERY", "INVALID_QUERY_LOCATOR", "INVALID_OPERATION", "QUERY_TOO_COMPLICATED"}
)
_OF_ALL_RECORDS = frozenset({401, 403, 404, 405, 415, 429})
_INTERNAL_ERROR = 500


@dataclass
class BisectedRead:
    """`rows` by record id, None for a record that the org does not have; records that are `refused`, each with the
    error of its own request, or all with one when no request is answered; and records that were `left` because too many
    requests had failed."""

    rows: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    refused: dict[str, SfcdcError] = field(default_factory=dict)
    left: tuple[str, ...] = ()


def bisecting_read(record_ids: Sequence[str], read: Callable[[list[str]], Rows], batch: int) -> BisectedRead:
    """Read the records in batches with `read`, which raises the session's errors.

    Takes at most two requests for each of `MOST_FAILURES` beside one a batch. An error that speaks of all records is
    raised at once.
    """
    found = BisectedRead()
    unique = list(dict.fromkeys(record_ids))
    waiting = deque(unique[start : start + batch] for start in range(0, len(unique), batch))
    failures = 0
    while waiting:
        some = waiting.popleft()
        try:
            found.rows |= read(some)
        except (QueryRefused, UnexpectedAnswer, OrgUnavailable) as error:
            if not may_be_one_record(error):
                raise
            failures += 1
            if not found.rows and failures >= PATIENCE:
                return BisectedRead(refused=dict.fromkeys(unique, error))
            if len(some) == 1:
                found.refused[some[0]] = error
            elif failures > MOST_FAILURES:
                found.left += tuple(some)
            else:
                middle = len(some) // 2
                waiting += [some[:middle], some[middle:]]
    return found


def may_be_one_record(error: SfcdcError) -> bool:
    """Return whether a request that failed so may succeed without one of its records, or for fewer of them."""
    if isinstance(error, QueryRefused):
        return error.error_code not in _OF_THE_QUERY and error.status not in _OF_ALL_RECORDS
    if isinstance(error, OrgUnavailable):
        return error.timed_out or error.status == _INTERNAL_ERROR
    return isinstance(error, UnexpectedAnswer)
