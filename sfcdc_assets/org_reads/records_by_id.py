"""Read named records back from the org: at the smallest cost, with what became of those that are not there, and why
others cannot be read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.bisecting_read import BisectedRead
from sfcdc_assets.salesforce.errors import EntityNotReadable
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.recycle_bin import deleted_records
from sfcdc_assets.salesforce.retrieve import NOT_RETRIEVEABLE, retrieve
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.snapshot.soql import SYSTEM_MODSTAMP, stamp_among
from sfcdc_assets.timeline.rest_rows import typed_rows


@dataclass(frozen=True)
class ReadBack:
    """Rows (the columns, then `READ_COLUMNS`) of records; why others could not be read; and those that were not asked
    for to the end because too many requests had failed."""

    rows: pa.Table
    refused: Mapping[str, str]
    left: tuple[str, ...]


def read_back(
    session: OrgSession,
    entity: str,
    record_ids: Sequence[str],
    columns: Sequence[Column],
    description: ObjectDescription,
    position: int,
    read_at: dt.datetime,
) -> ReadBack:
    """Return the records' rows now, with `position` as the watermark and `read_at` as the time.

    Living records come by composite retrieve, 2,000 a request. Those that it does not give are looked for in the
    recycle bin: found, they are deleted (or merged: MasterRecordId says into which); not found, they are gone for good,
    a row with the id alone. A record that the org does not give, or with a value that does not convert, keeps no other
    from being read. Of an object whose records no retrieve gives all are asked for by queries, which see living ones
    and those in the bin; some hundred a request. Raises the session's errors.
    """
    described = description.field_names
    spelt = by_any_case(described)
    asked = {spelt[column.name.lower()]: column.name for column in columns if column.name.lower() in spelt}
    wanted = [name for name in asked if name != "Id"]
    stamp = stamp_among(described) or SYSTEM_MODSTAMP
    extra = [name for name in ("IsDeleted", stamp, "MasterRecordId") if name in described and name not in wanted]
    fields = ["Id", *wanted, *extra]
    no_ids = {each: f"{each} has not the form of a Salesforce id" for each in record_ids if not is_salesforce_id(each)}
    living = _retrieved(session, description, [each for each in record_ids if each not in no_ids], fields)
    missing = [record_id for record_id, row in living.rows.items() if row is None]
    binned = deleted_records(session, entity, missing, fields)
    read = {**living.rows, **dict.fromkeys(missing), **binned.rows}
    skipped = {*binned.refused, *binned.left}
    found = {
        record_id: None if row is None else {asked.get(name, name): value for name, value in row.items()}
        for record_id, row in read.items()
        if record_id not in skipped
    }
    refused = no_ids | {record_id: str(error) for record_id, error in (living.refused | binned.refused).items()}
    unread = sorted({column.name for column in columns} - set(asked.values()) - set(fields)) or None
    source = session.url_of(f"composite/sobjects/{entity}")
    table, spoiled = typed_rows(source, found, columns, unread, position, read_at, stamp)
    return ReadBack(table, refused | spoiled, (*living.left, *binned.left))


def _retrieved(
    session: OrgSession, description: ObjectDescription, record_ids: Sequence[str], fields: Sequence[str]
) -> BisectedRead:
    """Return the living records, None in place of the others; all are, where the object's are not given so."""
    if description.retrieveable:
        try:
            return retrieve(session, description.name, record_ids, fields)
        except EntityNotReadable as refusal:
            if refusal.error_code != NOT_RETRIEVEABLE:
                raise
    return BisectedRead(dict.fromkeys(record_ids))
