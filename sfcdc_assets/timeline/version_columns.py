"""The system-versioned pair (SQL:2011): `current_state` has the current version of each record, `history` those before.

A superseded version is the row as it was, with its end. So a row and its history agree by construction.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, arrow_schema

_TIME = pa.timestamp("us", "UTC")
_NAMES = pa.list_(pa.string())

SYSTEM_COLUMNS = pa.schema(
    [
        ("_is_deleted", pa.bool_()),
        ("_deleted_reason", pa.string()),
        ("_in_doubt", pa.bool_()),
        ("_read_position", pa.int64()),
        ("_position", pa.int64()),
        ("_commit_timestamp", _TIME),
        ("_commit_user", pa.string()),
        ("_change_origin", pa.string()),
        ("_transaction_key", pa.string()),
        ("_valid_from", _TIME),
        ("_dated_by", pa.string()),
        ("_change_type", pa.string()),
        ("_changed_fields", _NAMES),
        ("_certain_fields", _NAMES),
        ("_batch", pa.int64()),
        ("_first_batch", pa.int64()),
    ]
)
"""`_position`: that of the event that made the version, or the watermark of the read that did. `_read_position`: the
watermark of the last read that showed the record; the row stands for all events up to the later of the two.

`_commit_timestamp`: the event's; for a read, the org's SystemModstamp. `_commit_user`, `_transaction_key`: the event's;
a read has LastModifiedById and no key. `_change_origin`: by which API and client the event's change was made,
empty for one that no API made; null for a read, which does not say. `_valid_from`: since when the version is valid,
never before the one it supersedes. `_dated_by`: what that time is (`COMMIT`, `STAMP`, `SEEN`), of the version before
where that began later; null of rows without a version, and of versions from before the tables had the column.

`_change_type`: CREATE, UPDATE, DELETE or UNDELETE as the event said, GAP_CREATE, GAP_UPDATE, GAP_DELETE or GAP_UNDELETE
of one without values, UNKNOWN of one that could not be read, or of those that a read may hide; SNAPSHOT or REFETCH for
what a read brought; FIELD_HISTORY of what the org's field history shows of the time before (`past_rows`); null for a
record of which nothing but its Id is known. `_changed_fields`: the columns that the version set (UPDATE), or that a
read showed to differ; null where it set them all, or which is not known.
`_certain_fields`: the columns whose values are certain because an event or a read has proven them, null for all
that the tables had at the version's position, but formulas.
`_batch`: the batch that wrote the row last, be it a version or only what is said of it (`with_batches`); in `history`
the one that superseded the version. `_first_batch`: the batch that wrote the record's first version; null for a row of
an earlier release, and for a record of which only the Id is known."""

COMMIT, STAMP, SEEN = "commit", "stamp", "seen"
"""When the event's transaction was committed; what the org's own stamp of the record says, or that of a row of field
history; when the org was asked: the version began some time since it had been asked before."""

OF_THE_ROW = ("_in_doubt", "_read_position", "_first_batch")
"""Columns that speak of the present row alone, not of its version."""

STANDS_AT = pl.max_horizontal("_position", "_read_position")
"""The position of the last event that a row of `current_state` stands for."""

END_COLUMNS = pa.schema([("_valid_to", _TIME), ("_superseded_at", pa.int64())])
"""When, and at which position, the next version of the record began."""

IN_ORDER = ("Id", "_position", "_superseded_at", "_valid_from", "_valid_to", "_batch")
"""Sorts versions, ends that are null last: of those of one position some are valid for no time of their own, and a
table has its rows in no order."""


def current_state_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of the table: `Id` first, the entity's columns, then the system columns; everything nullable."""
    return pa.schema([*arrow_schema(columns), *SYSTEM_COLUMNS])


def history_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of the table: the columns of `current_state` but `OF_THE_ROW`, then `END_COLUMNS`."""
    kept = [field for field in SYSTEM_COLUMNS if field.name not in OF_THE_ROW]
    return pa.schema([*arrow_schema(columns), *kept, *END_COLUMNS])
