"""What the org still allows: API requests, delivered events, bulk jobs (docs/salesforce-streams.md, "Limits").

Also about how many records objects have, for hundreds of them in one request (REST API Developer Guide, Record Count).
The org counts in a cache of its own, without archived records and the recycle bin: good enough for what is large and
what is small, and for nothing else. `query.count` is exact, and costs a request an object and the org a scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession


class Limit(NamedTuple):
    """One allowance. `remaining` can be below zero: some are soft."""

    maximum: int
    remaining: int


def limits(session: OrgSession) -> dict[str, Limit]:
    """Name (`DailyApiRequests`, `DailyDeliveredPlatformEvents` ...) -> allowance.

    Raises `RequestRefused` when the user lacks 'View Setup and Configuration'.
    """
    path = "limits/"
    answer = session.request("GET", path, what="the org's limits")
    try:
        return {
            name: Limit(int(limit["Max"]), int(limit["Remaining"]))
            for name, limit in answer.items()
            if "Max" in limit and "Remaining" in limit  # a limit per connected app nests others instead
        }
    except (AttributeError, TypeError, ValueError):
        raise UnexpectedAnswer(session.url_of(path), "it is not a list of limits") from None


CHARACTERS_OF_A_REQUEST = 4_000
"""Of names in one address: the org takes 16,384 for the whole of it, many a proxy half of that."""


def record_counts(session: OrgSession, entities: Sequence[str]) -> dict[str, int]:
    """Entity -> about how many records it has; one that the org does not count is left out.

    Raises `RequestRefused` when the user lacks 'View Setup and Configuration'.
    """
    path = "limits/recordCount"
    found: dict[str, int] = {}
    for some in _in_one_request(entities):
        answer = session.request("GET", path, params={"sObjects": ",".join(some)}, what="the counts of records")
        try:
            found |= {str(each["name"]): int(each["count"]) for each in answer["sObjects"]}
        except (KeyError, TypeError, ValueError):
            raise UnexpectedAnswer(session.url_of(path), "it is not a list of record counts") from None
    return found


def _in_one_request(entities: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    length = 0
    for entity in entities:
        if some and length + len(entity) > CHARACTERS_OF_A_REQUEST:
            yield some
            some, length = [], 0
        some.append(entity)
        length += len(entity) + len("%2C")
    if some:
        yield some
