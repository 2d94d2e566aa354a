"""The query of a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Sequence

ID = "Id"
IS_DELETED = "IsDeleted"
SYSTEM_MODSTAMP = "SystemModstamp"
MASTER_RECORD_ID = "MasterRecordId"
_ALWAYS = (ID, IS_DELETED, SYSTEM_MODSTAMP)


def selected_fields(column_names: Sequence[str], described: Collection[str]) -> tuple[str, ...]:
    """The fields a snapshot asks for: Id, IsDeleted, SystemModstamp, the columns, and MasterRecordId if there is one.

    `described`: API names of the fields the user may read. The event schema lists fields that are hidden from the user
    (it ignores field-level security), and one of those would refuse the whole query, so they are left out.
    """
    columns = [name for name in column_names if name in described and name not in _ALWAYS]
    if MASTER_RECORD_ID in described and MASTER_RECORD_ID not in columns:
        columns.append(MASTER_RECORD_ID)
    return (*(name for name in _ALWAYS if name in described), *columns)


def snapshot_query(entity: str, fields: Sequence[str]) -> str:
    """SELECT of these fields of all records. No ORDER BY and no LIMIT: either would switch off the org's chunking."""
    return f"SELECT {', '.join(fields)} FROM {entity}"
