"""Several queries in one request, page by page, each with the time at which the org was asked.

A composite request counts once whatever is in it, and may hold five queries (REST API Developer Guide, "Composite
Resources"). Its queries stand in a body, so they are bounded by what SOQL takes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.answers import json_of, refusal_of
from sfcdc_assets.salesforce.errors import QueryRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession

T = TypeVar("T")
MOST_QUERIES = 5
"""In one request."""
PAGE_ROWS = 2_000
"""Records in one page of a query (SOQL and SOSL Reference, Change the Batch Size in Queries)."""


@dataclass(frozen=True)
class QueryPage:
    """Rows as JSON values without `attributes`; where the next page is, None for the last one; and the time by the
    org's own clock, UTC, before the query was run: None where its answers have no date."""

    rows: tuple[dict[str, Any], ...]
    next_path: str | None
    asked_at: datetime | None


def first_pages(session: OrgSession, queries: Sequence[str]) -> list[QueryPage | SfcdcError]:
    """Return the first page of each query, deleted records included (queryAll), or why the org refuses that one.

    At most `MOST_QUERIES`. Raises what the session raises when none is answered.
    """
    return [_unless_refused(each, _page) for each in _answers(session, "queryAll", queries)]


def first_page(session: OrgSession, query: str) -> QueryPage:
    """Return the first page of one query, deleted records included. Raises what the org refuses it with, and what the
    session raises."""
    [page] = first_pages(session, [query])
    if isinstance(page, Exception):
        raise page
    return page


def counts(session: OrgSession, queries: Sequence[str]) -> list[int | SfcdcError]:
    """Return how many living records each query of the form `SELECT COUNT() FROM ...` counts, or why the org refuses
    it.

    At most `MOST_QUERIES`. Raises what the session raises when none is answered.
    """
    return [_unless_refused(each, _count) for each in _answers(session, "query", queries)]


def next_page(session: OrgSession, soql: str, path: str) -> QueryPage:
    """Return the page at a path that the page before has named. Raises `QueryRefused`, also for a locator that has
    expired, and what the session raises."""
    url = session.url_of(path)
    response = session.send("GET", url, repeatable=True)
    if not response.ok:
        refusal = refusal_of(response, "a query")
        raise QueryRefused(soql, refusal.status, refusal.error_code, refusal.message)
    return _page(url, json_of(response), session.asked_at)


@dataclass(frozen=True)
class _Answer:
    """To one query of several: the status, None for none; the body; and when the org was asked."""

    url: str
    soql: str
    status: int | None
    body: Any
    asked_at: datetime | None


def _answers(session: OrgSession, resource: str, queries: Sequence[str]) -> list[_Answer]:
    version = session.version
    asked = [
        {
            "method": "GET",
            "url": f"/services/data/v{version}/{resource}/?q={quote(soql, safe='')}",
            "referenceId": f"query{number}",
        }
        for number, soql in enumerate(queries)
    ]
    url = session.url_of("composite")
    response = session.send("POST", url, repeatable=True, json={"allOrNone": False, "compositeRequest": asked})
    if not response.ok:
        raise refusal_of(response, "queries")
    answer = json_of(response)
    answers = answer.get("compositeResponse") if isinstance(answer, dict) else None
    if not isinstance(answers, list) or len(answers) != len(queries):
        raise UnexpectedAnswer(url, "it is not the answer to a composite request")
    at = session.asked_at
    return [
        _Answer(url, soql, each.get("httpStatusCode"), each.get("body"), at)
        if isinstance(each, dict)
        else _Answer(url, soql, None, None, at)
        for soql, each in zip(queries, answers, strict=True)
    ]


def _unless_refused(answer: _Answer, read: Callable[[str, Any, datetime | None], T]) -> T | SfcdcError:
    if not isinstance(answer.status, int):
        return UnexpectedAnswer(answer.url, "a query without a status")
    if answer.status >= 400:
        first = answer.body[0] if isinstance(answer.body, list) and answer.body else None
        first = first if isinstance(first, dict) else {}
        code = str(first.get("errorCode", f"HTTP_{answer.status}"))
        return QueryRefused(answer.soql, answer.status, code, str(first.get("message", "no reason is given")))
    try:
        return read(answer.url, answer.body, answer.asked_at)
    except UnexpectedAnswer as error:
        return error


def _count(url: str, answer: Any, _: datetime | None) -> int:
    total = answer.get("totalSize") if isinstance(answer, dict) else None
    if not isinstance(total, int):
        raise UnexpectedAnswer(url, "a count without totalSize")
    return total


def _page(url: str, answer: Any, asked_at: datetime | None) -> QueryPage:
    if not isinstance(answer, dict) or not isinstance(answer.get("records"), list) or "done" not in answer:
        raise UnexpectedAnswer(url, "it is not a page of a query")
    following = None if answer["done"] else answer.get("nextRecordsUrl")
    if not answer["done"] and not (isinstance(following, str) and following.startswith("/services/data/")):
        raise UnexpectedAnswer(url, "a page that is not the last one names no next page")
    rows = tuple({name: value for name, value in row.items() if name != "attributes"} for row in answer["records"])
    return QueryPage(rows, following, asked_at)
