"""An object read as a whole, page by page: by Bulk API 2.0, or by queries where there is no Bulk for it, which name the
object's parents where the org wants that, and where a polled object is small.

A page comes with the progress to store with it, whatever it was read by (`snapshot.pages`). A query goes on at its
locator, which the org keeps for two days; one that names parents, after the last parent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.org_connection.object_trial import check_ids, tried
from sfcdc_assets.polls.cost import PARENTS_PER_PAGE
from sfcdc_assets.polls.cursor import Cursor
from sfcdc_assets.polls.known_objects import PARENTS_PER_QUERY, ParentKey, known_object
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.composite_query import (
    PAGE_ROWS,
    QueryPage,
    first_page,
    first_pages,
    next_page,
)
from sfcdc_assets.salesforce.errors import BulkJobGone, EntityNotReadable, QueryRefused
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.snapshot import pages
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.snapshot.soql import SYSTEM_MODSTAMP, snapshot_query, stamp_among
from sfcdc_assets.timeline.rest_rows import typed_rows

_NO_BULK = "not supported by the Bulk API"
_EXPIRED = frozenset({"INVALID_QUERY_LOCATOR"})


def start(  # noqa: PLR0913 - each has its name
    session: OrgSession,
    entity: str,
    columns: Sequence[Column],
    *,
    channel: str,
    position: int,
    snapshot_number: int,
    where: str | None = None,
    expected_rows: int | None = None,
) -> SnapshotProgress:
    """Begin, as `snapshot.pages.start` does, by what reads the object; one that Bulk refuses is read by queries.
    `where`: the condition of the records that are wanted, None for all. `expected_rows`: about how many, where that is
    known: of hundreds of polled objects most have few, and each would wait for a Bulk job of its own.

    A polled one is tried first, but for a comparison (`snapshot_number` 0) by Bulk: it was when it was copied. Raises
    `NotPollable` where no query reads all of it either, or its records have no Ids of their own, before anything is
    written, and what that one raises.
    """
    known = known_object(entity)
    begun = pages.begun(session, entity, columns, channel=channel, position=position, snapshot_number=snapshot_number)
    asked_at = tried(session, entity, known.parent) if channel == POLLED and snapshot_number else None
    # Two requests, with the one that is tried first, where a Bulk job takes four and its wait.
    is_small = channel == POLLED and expected_rows is not None and expected_rows <= PAGE_ROWS
    if not known.no_bulk and not is_small:
        try:
            return pages.start(session, begun, where)
        except EntityNotReadable as refusal:
            if _NO_BULK not in refusal.message:
                raise
        except QueryRefused:
            tried(session, entity, known.parent)  # it is the object and not this query, if it refuses this one too
            raise
    asked_at = asked_at or tried(session, entity, known.parent)
    return replace(
        begun,
        asked_at_ms=Cursor(asked_at).stamp_ms if asked_at else None,
        query=snapshot_query(entity, begun.fields, where),
    )


def read_pages(
    session: OrgSession,
    progress: SnapshotProgress,
    columns: Sequence[Column],
    *,
    sleep: Callable[[float], None] | None = None,
    on_unreadable: Callable[[Mapping[str, str]], object] | None = None,
) -> Generator[tuple[pa.Table, SnapshotProgress], None, None]:
    """Yield the pages after `progress`, as `snapshot.pages.read_pages` does; `BulkJobGone` also for a query whose
    locator has expired. Raises `NotPollable` for a page that has an Id twice, or the empty one."""
    if progress.query is None:
        for page, after in pages.read_pages(session, progress, columns, sleep=sleep, on_unreadable=on_unreadable):
            check_ids(progress.entity, pl.Series(page["Id"]))
            yield page, after
        return
    while not progress.complete:
        rows, locator = _next_rows(session, progress, progress.query)
        table, unreadable = _page(session, progress, rows, columns)
        if unreadable and on_unreadable is not None:
            on_unreadable(unreadable)
        progress = replace(
            progress,
            next_locator=locator,
            pages_done=progress.pages_done + 1,
            rows_done=progress.rows_done + len(rows),
            complete=locator is None,
        )
        yield table, progress


def _next_rows(session: OrgSession, progress: SnapshotProgress, query: str) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows after the progress, and where the next ones are."""
    parent = known_object(progress.entity).parent
    if parent is not None:
        return _rows_of_parents(session, query, parent, progress.next_locator)
    try:
        page = next_page(session, query, progress.next_locator) if progress.next_locator else None
    except QueryRefused as refusal:
        if refusal.error_code in _EXPIRED:
            raise BulkJobGone(f"the query of {progress.entity}") from refusal
        raise
    page = page or first_page(session, query)
    return list(page.rows), page.next_path


def _rows_of_parents(
    session: OrgSession, query: str, parent: ParentKey, after: str | None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the rows that name the parents after an Id, and the last parent's Id; None where these are the last."""
    ahead = f" WHERE Id > '{after}'" if after else ""
    found = first_page(session, f"SELECT Id FROM {parent.parent}{ahead} ORDER BY Id LIMIT {PARENTS_PER_PAGE}")
    ids = [str(row["Id"]) for row in _all_rows(session, query, found)]
    beside = "AND" if " WHERE " in query else "WHERE"
    queries = [
        f"{query} {beside} {parent.field} IN ({_listed(ids[first : first + PARENTS_PER_QUERY])})"
        for first in range(0, len(ids), PARENTS_PER_QUERY)
    ]
    rows: list[dict[str, Any]] = []
    for asked, page in zip(queries, first_pages(session, queries) if queries else [], strict=True):
        if isinstance(page, Exception):
            raise page
        rows += _all_rows(session, asked, page)
    return rows, ids[-1] if len(ids) == PARENTS_PER_PAGE else None


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(f"'{each}'" for each in ids)


def _all_rows(session: OrgSession, query: str, page: QueryPage) -> Iterator[dict[str, Any]]:
    yield from page.rows
    while page.next_path is not None:
        page = next_page(session, query, page.next_path)
        yield from page.rows


def _page(
    session: OrgSession, progress: SnapshotProgress, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]
) -> tuple[pa.Table, dict[str, str]]:
    """Return rows as a page of a snapshot, and what is wrong with those that have a value which does not convert."""
    check_ids(progress.entity, pl.Series("Id", [row["Id"] for row in rows], pl.String))
    names = {column.name.lower(): column.name for column in columns}
    found = {str(row["Id"]): {names.get(name.lower(), name): value for name, value in row.items()} for row in rows}
    stamp = stamp_among(progress.fields) or SYSTEM_MODSTAMP
    read_at = utc(progress.started_at_ms)
    source = session.url_of("queryAll/")
    table, spoiled = typed_rows(source, found, columns, None, progress.position, read_at, stamp)
    return table.select(pages.page_schema(columns).names).sort_by("Id"), spoiled
