"""Records by their ids, up to 2,000 a call (facts section 8, composite/sobjects)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfcdc_assets.salesforce.errors import (
    EntityNotReadable,
    OrgUnavailable,
    QueryRefused,
    RequestRefused,
    UnexpectedAnswer,
)
from sfcdc_assets.salesforce.session import OrgSession

MOST_IDS_PER_CALL = 2000
_TOO_LONG = frozenset({413, 414, 431})
_TRIES_BEFORE_SPLITTING = 2
_ENTITY_REFUSALS = frozenset({"NOT_FOUND", "INVALID_TYPE", "INSUFFICIENT_ACCESS", "API_DISABLED_FOR_ORG"})


def retrieve(
    session: OrgSession, entity: str, ids: Sequence[str], fields: Sequence[str], *, batch: int = MOST_IDS_PER_CALL
) -> dict[str, dict[str, Any] | None]:
    """id (as given) -> its fields as JSON values, or None where the org has no such record for the user.

    A deleted record is None too. A batch that is too long or too slow for the org is split in halves, down to one id.
    One unknown field name refuses the whole call: `QueryRefused`. Raises `EntityNotReadable`.
    """
    rows: dict[str, dict[str, Any] | None] = {}
    unique = list(dict.fromkeys(ids))
    waiting = [unique[start : start + batch] for start in range(0, len(unique), batch)]
    while waiting:
        some = waiting.pop(0)
        try:
            rows.update(_one_call(session, entity, some, fields))
        except RequestRefused as refusal:
            too_much = refusal.status in _TOO_LONG or refusal.error_code == "QUERY_TIMEOUT"
            if too_much and len(some) > 1:
                waiting[:0] = _halves(some)
            elif refusal.error_code in _ENTITY_REFUSALS:
                raise EntityNotReadable(entity, refusal.status, refusal.error_code, refusal.message) from refusal
            else:
                soql = f"retrieve {', '.join(fields)} of {len(some)} records of {entity}"
                raise QueryRefused(soql, refusal.status, refusal.error_code, refusal.message) from refusal
        except OrgUnavailable as error:
            if not error.timed_out or len(some) == 1:
                raise
            waiting[:0] = _halves(some)
    return rows


def _one_call(
    session: OrgSession, entity: str, ids: list[str], fields: Sequence[str]
) -> dict[str, dict[str, Any] | None]:
    path = f"composite/sobjects/{entity}"
    # POST, because the ids of a GET end at about 800. It only reads, so it may be sent again.
    answer = session.request(
        "POST",
        path,
        json={"ids": ids, "fields": list(fields)},
        repeatable=True,
        tries=_TRIES_BEFORE_SPLITTING,
        what=f"records of {entity}",
    )
    if not isinstance(answer, list) or len(answer) != len(ids):
        raise UnexpectedAnswer(session.url_of(path), f"not one record or null for each of {len(ids)} ids")
    rows: dict[str, dict[str, Any] | None] = {}
    for record_id, row in zip(ids, answer, strict=True):
        if row is not None and (not isinstance(row, dict) or str(row.get("Id", record_id))[:15] != record_id[:15]):
            raise UnexpectedAnswer(session.url_of(path), f"in the place of {record_id} stands another record")
        rows[record_id] = None if row is None else {name: value for name, value in row.items() if name != "attributes"}
    return rows


def _halves(ids: list[str]) -> list[list[str]]:
    middle = len(ids) // 2
    return [ids[:middle], ids[middle:]]
