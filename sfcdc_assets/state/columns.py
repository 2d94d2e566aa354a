"""The columns of `current_state/<Entity>`: the entity's own, then what we know about the row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column, arrow_schema

SYSTEM_COLUMNS = pa.schema(
    [
        ("_is_deleted", pa.bool_()),
        ("_deleted_reason", pa.string()),
        ("_in_doubt", pa.bool_()),
        ("_position", pa.int64()),
        ("_commit_timestamp", pa.timestamp("us", "UTC")),
        ("_commit_user", pa.string()),
        ("_transaction_key", pa.string()),
    ]
)
"""`_position` is the position the row stands for: that of its last event, or the pin of the read it came from.
`_commit_timestamp` and `_commit_user` are the last event's; a row read back has its SystemModstamp and
LastModifiedById there and no `_transaction_key`."""


def current_state_schema(columns: Sequence[Column]) -> pa.Schema:
    """Arrow schema of the table: `Id` first, the entity's columns, then the system columns; everything nullable."""
    return pa.schema([*arrow_schema(columns), *SYSTEM_COLUMNS])
