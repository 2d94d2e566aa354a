"""Formulas that the org does not compute: all together, because the query is too complicated for it, or one alone,
whatever it is asked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets.salesforce.retrieve import retrieve
from sfcdc_assets.salesforce.session import OrgSession


@dataclass(frozen=True)
class ComputedFormulas:
    """`parts`: columns, each beside `Id`, that the org computes in one query; `refused`: by formula, its
    words."""

    parts: tuple[tuple[Column, ...], ...]
    refused: Mapping[str, str]


def computed_formulas(
    session: OrgSession, entity: str, columns: Sequence[Column], record_ids: Sequence[str]
) -> ComputedFormulas:
    """Find out which of the columns (`Id` first) the org computes together, by halves, of some records that there are.

    At most two requests for each formula. Raises the session's errors.
    """
    record_id, *formulas = columns
    waiting, parts, refused = [formulas], list[tuple[Column, ...]](), dict[str, str]()
    while waiting:
        some = waiting.pop(0)
        error = _refusal(session, entity, [record_id.name, *(each.name for each in some)], record_ids)
        if error is None:
            parts.append((record_id, *some))
        elif len(some) == 1:
            refused[some[0].name] = f"{error.error_code}: {error.message}"
        else:
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
    return ComputedFormulas(tuple(parts), refused)


def _refusal(session: OrgSession, entity: str, names: Sequence[str], record_ids: Sequence[str]) -> QueryRefused | None:
    try:
        read = retrieve(session, entity, record_ids, names)
    except QueryRefused as refusal:
        return refusal
    why = next((each for each in read.refused.values() if isinstance(each, QueryRefused)), None)
    return why if not read.rows else None
