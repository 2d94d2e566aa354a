"""Records by their ids, up to 2,000 a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.salesforce.bisecting_read import BisectedRead, bisecting_read
from sfcdc_assets.salesforce.errors import EntityNotReadable, QueryRefused, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.session import OrgSession

MOST_IDS_PER_CALL = 2000
TRIES_BEFORE_SPLITTING = 2
NOT_RETRIEVEABLE = "INVALID_TYPE_FOR_OPERATION"
_ENTITY_REFUSALS = frozenset(
    {"NOT_FOUND", "INVALID_TYPE", "INSUFFICIENT_ACCESS", "API_DISABLED_FOR_ORG", NOT_RETRIEVEABLE}
)


def retrieve(session: OrgSession, entity: str, ids: Sequence[str], fields: Sequence[str]) -> BisectedRead:
    """Fields of living records as JSON values by id (as given), None where the org has no such record for the user.

    A deleted record is None too. A batch that is too long or too slow for the org, or that one record spoils, is split
    in halves. One unknown field name refuses the whole call: `QueryRefused`. Raises `EntityNotReadable`.
    """
    return bisecting_read(ids, lambda some: _one_call(session, entity, some, fields), MOST_IDS_PER_CALL)


def _one_call(
    session: OrgSession, entity: str, ids: list[str], fields: Sequence[str]
) -> dict[str, dict[str, Any] | None]:
    path = f"composite/sobjects/{entity}"
    try:
        # POST, because the ids of a GET end at about 800. It only reads, so it may be sent again.
        answer = session.request(
            "POST",
            path,
            json={"ids": ids, "fields": list(fields)},
            repeatable=True,
            tries=TRIES_BEFORE_SPLITTING,
            what=f"records of {entity}",
        )
    except RequestRefused as refusal:
        if refusal.error_code in _ENTITY_REFUSALS:
            raise EntityNotReadable(entity, refusal.status, refusal.error_code, refusal.message) from refusal
        soql = f"retrieve {', '.join(fields)} of {counted(len(ids), 'record')} of {entity}"
        raise QueryRefused(soql, refusal.status, refusal.error_code, refusal.message) from refusal
    if not isinstance(answer, list) or len(answer) != len(ids):
        raise UnexpectedAnswer(session.url_of(path), f"not one record or null for each of {len(ids)} ids")
    rows: dict[str, dict[str, Any] | None] = {}
    for record_id, row in zip(ids, answer, strict=True):
        if row is not None and (not isinstance(row, dict) or str(row.get("Id", record_id))[:15] != record_id[:15]):
            raise UnexpectedAnswer(session.url_of(path), f"in the place of {record_id} stands another record")
        rows[record_id] = None if row is None else {name: value for name, value in row.items() if name != "attributes"}
    return rows
