"""What the org still allows: API requests, delivered events, bulk jobs (docs/salesforce-streams.md, "Limits")."""

from __future__ import annotations

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
