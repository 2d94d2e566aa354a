"""What neither an object's name nor its describe says of whether it can be read as a table, asked of the org."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from sfcdc_assets.polls.cursor import Cursor, order
from sfcdc_assets.polls.known_objects import ParentKey
from sfcdc_assets.polls.readability import NotPollable, refusal_of_query
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.composite_query import first_page, first_pages
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets.salesforce.record_id import EMPTY
from sfcdc_assets.salesforce.session import OrgSession

OF_ITS_STAMP = frozenset({"INVALID_FIELD", "INVALID_QUERY_FILTER_OPERATOR", "MALFORMED_QUERY"})
"""What a query by a stamp may be refused with that no query can be filtered or sorted by."""


def tried(session: OrgSession, entity: str, parent: ParentKey | None) -> datetime | None:
    """Return when the org was asked, by its own clock, for two records of an object; of one that is read through
    another, for those of that one. One request.

    Raises `NotPollable` where it gives none, or none with Ids of their own.
    """
    asked = entity if parent is None else parent.parent
    try:
        page = first_page(session, f"SELECT Id FROM {asked} LIMIT 2")
    except QueryRefused as refusal:
        raise refusal_of_query(entity, refusal.error_code, refusal.message) or refusal from refusal
    check_ids(entity, pl.Series("Id", [row.get("Id") for row in page.rows], pl.String))
    return page.asked_at


def refuses_stamp(session: OrgSession, entity: str, stamp: str) -> bool:
    """Return whether the org refuses to be asked for what changed in an object by this field, in the order of which
    polls read, though describe says that it may. One request."""
    soql = f"SELECT Id FROM {entity} WHERE {Cursor(clock.now()).condition(stamp)} {order(stamp)} LIMIT 1"
    [answer] = first_pages(session, [soql])
    return isinstance(answer, QueryRefused) and answer.error_code in OF_ITS_STAMP


def check_ids(entity: str, ids: pl.Series) -> None:
    """Raise `NotPollable` where one of the Ids that an answer has for an object's records is the empty one, or one is
    there twice: what is kept by Ids would be one record."""
    if ids.fill_null("").str.contains(f"^(?:{EMPTY})$").any():
        raise NotPollable(entity, "its records have the empty Id, and none of their own")
    if ids.n_unique() < len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise NotPollable(entity, f"several of its records have one Id, {twice}")
