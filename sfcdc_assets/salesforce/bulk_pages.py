"""The results of a bulk query job, page by page from any locator (docs/salesforce-streams.md, "Bulk API 2.0
queries")."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

import pyarrow as pa
import requests

from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.salesforce.bulk_csv import read_page
from sfcdc_assets.salesforce.bulk_query import BulkJob
from sfcdc_assets.salesforce.errors import BulkJobGone, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.gzip_body import body_of
from sfcdc_assets.salesforce.session import OrgSession

MOST_PAGE_BYTES = 64 * 1024 * 1024
_MOST_BYTES_OF_ONE_RECORD = 1024 * 1024 * 1024
_SPOOL_IN_MEMORY_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024


@dataclass(frozen=True)
class BulkPage:
    """One page: its rows, those that cannot be read (Id -> why), and the locator of the page after it (None on the last
    one)."""

    number_of_records: int
    next_locator: str | None
    table: pa.Table
    unreadable: Mapping[str, str]


def pages(
    session: OrgSession,
    job: BulkJob,
    schema: pa.Schema,
    *,
    locator: str | None = None,
    max_records: int,
    max_bytes: int = MOST_PAGE_BYTES,
) -> Iterator[BulkPage]:
    """Pages of a complete job's result from `locator` on (None: the first page), fetched as they are consumed.

    `schema` gives the types; a column of the result that it does not name is text. Locators stay good while the job
    exists, so a page can be read again. A page is at most `max_records` rows and about `max_bytes` of CSV: one that
    grows beyond is given up and asked for again with half the rows.
    Raises `BulkJobGone`, `UnexpectedAnswer`, and the session's errors.
    """
    while True:
        try:
            page = _page(session, job, schema, locator=locator, max_records=max_records, max_bytes=max_bytes)
        except _PageTooLarge:
            if max_records == 1:
                max_bytes *= 2  # one record alone: there is nothing left to split
            if max_bytes > _MOST_BYTES_OF_ONE_RECORD:
                raise UnexpectedAnswer(session.url_of(f"{job.path}/results"), "a page that does not end") from None
            max_records = max(1, max_records // 2)
            continue
        yield page
        if page.next_locator is None:
            return
        locator = page.next_locator


class _PageTooLarge(Exception):
    """The body of a page has passed the limit; never leaves this module."""


def _page(
    session: OrgSession, job: BulkJob, schema: pa.Schema, *, locator: str | None, max_records: int, max_bytes: int
) -> BulkPage:
    path = f"{job.path}/results"
    params = {"maxRecords": str(max_records)} | ({"locator": locator} if locator else {})
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY_BYTES) as spool:
        try:
            response = session.stream(
                path,
                lambda answer: _spool(answer, spool, max_bytes),
                what=f"results of bulk query job {job.id}",
                params=params,
                headers={"Accept": "text/csv", "Accept-Encoding": "gzip"},
            )
        except RequestRefused as refusal:
            if refusal.status == 404 or "LOCATOR" in refusal.error_code.upper():
                raise BulkJobGone(job.id) from refusal
            raise
        url = session.url_of(path)
        expected = response.headers.get("Sforce-NumberOfRecords", "")
        if response.status_code != 200 or not expected.isdigit():
            raise UnexpectedAnswer(url, f"HTTP {response.status_code} without a page of results")
        spool.seek(0)
        read = read_page(spool, schema, url)
    records = read.table.num_rows + len(read.unreadable)
    if records != int(expected):
        raise UnexpectedAnswer(url, f"a page of {counted(records, 'record')} that says it has {expected}")
    following = response.headers.get("Sforce-Locator", "null")
    if following == locator:
        raise UnexpectedAnswer(url, "a page that names itself as the next one")
    return BulkPage(records, None if following == "null" else following, read.table, read.unreadable)


def _spool(response: requests.Response, spool: IO[bytes], max_bytes: int) -> None:
    """Read the body into the spool, from its start: a try that broke has left a part there."""
    spool.seek(0)
    spool.truncate()
    with response:
        for chunk in body_of(response, _CHUNK_BYTES):
            spool.write(chunk)
            if spool.tell() > max_bytes:
                raise _PageTooLarge
