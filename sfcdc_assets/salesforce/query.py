"""SOQL over the REST query resources, page by page (docs/salesforce-streams.md, "SOQL queries")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sfcdc_assets.salesforce.errors import EntityNotReadable, QueryRefused, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.transport import TRIES

_ENTITY_REFUSALS = frozenset({"INVALID_TYPE", "INSUFFICIENT_ACCESS", "API_DISABLED_FOR_ORG"})


def query_rows(
    session: OrgSession, soql: str, *, include_deleted: bool = False, tries: int = TRIES
) -> Iterator[dict[str, Any]]:
    """Rows as JSON values without `attributes`, fetched as they are consumed; memory holds one page (2,000 rows).

    `include_deleted`: rows of the recycle bin too (queryAll). Raises `QueryRefused`, also when a locator expires
    (they live two days) in the middle. The query is a part of the address, which ends at 16 KB at most.
    """
    path, params = "queryAll/" if include_deleted else "query/", {"q": soql}
    while path:
        answer = _page(session, path, params, soql, tries)
        for record in answer["records"]:
            yield {name: value for name, value in record.items() if name != "attributes"}
        path, params = ("" if answer["done"] else _next_path(session, path, answer)), {}


def count(session: OrgSession, entity: str, where: str | None = None, *, include_deleted: bool = False) -> int:
    """Return the number of records, by `SELECT COUNT()`. `where`: a SOQL condition without the word WHERE.

    Raises `EntityNotReadable` for an entity the user cannot query, `QueryRefused` for a wrong condition.
    """
    soql = f"SELECT COUNT() FROM {entity}" + (f" WHERE {where}" if where else "")
    path = "queryAll/" if include_deleted else "query/"
    try:
        answer = _page(session, path, {"q": soql}, soql)
    except QueryRefused as refusal:
        if refusal.error_code in _ENTITY_REFUSALS:
            raise EntityNotReadable(entity, refusal.status, refusal.error_code, refusal.message) from refusal
        raise
    total = answer.get("totalSize")
    if not isinstance(total, int):
        raise UnexpectedAnswer(session.url_of(path), "a count without totalSize")
    return total


def _page(session: OrgSession, path: str, params: dict[str, str], soql: str, tries: int = TRIES) -> dict[str, Any]:
    try:
        answer = session.request("GET", path, params=params, what="a query", tries=tries)
    except RequestRefused as refusal:
        raise QueryRefused(soql, refusal.status, refusal.error_code, refusal.message) from refusal
    if not isinstance(answer, dict) or not isinstance(answer.get("records"), list) or "done" not in answer:
        raise UnexpectedAnswer(session.url_of(path), "it is not a page of a query")
    return answer


def _next_path(session: OrgSession, path: str, answer: dict[str, Any]) -> str:
    following = answer.get("nextRecordsUrl")
    if not isinstance(following, str) or not following.startswith("/services/data/"):
        raise UnexpectedAnswer(session.url_of(path), "a page that is not the last one names no next page")
    return following
