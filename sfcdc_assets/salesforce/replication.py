"""Up to when an org says that all changes are visible: a transaction that is still open has stamps from its beginning.

`getUpdated` gives that time beside its ids (REST API Developer Guide, "sObject Get Updated": `latestDateCovered`). It
stays at the start of the oldest open transaction, of whatever object, so one object is asked for all (Knowledge Article
000199029, "getUpdated and latestDateCovered").
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession

SPAN = timedelta(minutes=2)
"""Of the question: the org ignores seconds, and wants a minute at least. Its ids are not needed."""


def covered_until(session: OrgSession, entity: str, now: datetime) -> datetime:
    """Return the time (UTC) before which nothing becomes visible any more that was not before.

    `now`: as the org has it, or nearly; the answer is no later. Raises `RequestRefused` for an object that is not
    replicateable, and the session's errors.
    """
    path = f"sobjects/{entity}/updated/"
    span = {"start": _text(now - SPAN), "end": _text(now)}
    answer: Any = session.request("GET", path, params=span, what=f"what was updated of {entity}")
    try:
        return datetime.fromisoformat(str(answer["latestDateCovered"])).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        raise UnexpectedAnswer(session.url_of(path), "it has no latestDateCovered") from None


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}+00:00"
