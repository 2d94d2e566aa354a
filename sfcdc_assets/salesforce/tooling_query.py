"""Queries of the Tooling API, which knows an org's own setup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfcdc_assets.salesforce.errors import UnexpectedAnswer

if TYPE_CHECKING:  # who reads what was noted of members does not wait for a session's libraries
    from sfcdc_assets.salesforce.session import OrgSession

PATH = "tooling/query/"


def tooling_rows(session: OrgSession, soql: str) -> list[dict[str, Any]]:
    """Return all rows of a query, in one request: an org has at most 100 channels and some hundred members, so no page
    follows. Raises `RequestRefused` and `UnexpectedAnswer`."""
    answer = session.request("GET", PATH, params={"q": soql}, what="a tooling query")
    records = answer.get("records") if isinstance(answer, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UnexpectedAnswer(session.url_of(PATH), "it is not a page of a query")
    return records
