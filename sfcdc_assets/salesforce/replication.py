"""What an org says for those who keep a copy: up to when all changes are visible, and which records were deleted.

A transaction that is still open has stamps from its beginning. `getUpdated` gives the time before which none is, beside
its ids (REST API Developer Guide, "sObject Get Updated": `latestDateCovered`). It stays at the start of the oldest open
transaction, of whatever object, so one object is asked for all (Knowledge Article 000199029, "getUpdated and
latestDateCovered").
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


KEPT = timedelta(days=15)
"""How long the org remembers what was deleted; less where much is (Object Reference, "Polling for Changes")."""


def deleted_since(session: OrgSession, entity: str, start: datetime, end: datetime) -> frozenset[str]:
    """Return the Ids of the records that were deleted between two times (UTC), those that have left the recycle bin
    too. They are no proof: the org lists a deactivated `CurrencyType`, which is still there.

    Raises `RequestRefused` where the org does not know that: an object that is not replicateable, a start before its
    log of deletes (INVALID_REPLICATION_DATE), more than 600,000 of them (EXCEEDED_ID_LIMIT).
    """
    path = f"sobjects/{entity}/deleted/"
    span = {"start": _text(max(start, end - KEPT + SPAN)), "end": _text(end)}
    answer: Any = session.request("GET", path, params=span, what=f"what was deleted of {entity}")
    try:
        return frozenset(str(each["id"]) for each in answer["deletedRecords"])
    except (KeyError, TypeError):
        raise UnexpectedAnswer(session.url_of(path), "it has no deletedRecords") from None


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}+00:00"
