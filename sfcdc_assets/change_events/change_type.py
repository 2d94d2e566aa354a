"""What a change event says happened to its records."""

from __future__ import annotations

from enum import StrEnum


class ChangeType(StrEnum):
    """What happened to the records (docs/salesforce-streams.md, "Change event schema"). `UNKNOWN` is ours, the rest are
    Salesforce's symbols."""

    CREATE = "CREATE"
    """New records; the event carries every field."""
    UPDATE = "UPDATE"
    """Changed records; the event carries the changed fields only."""
    DELETE = "DELETE"
    """Deleted records; no field is carried."""
    UNDELETE = "UNDELETE"
    """Records back from the recycle bin; the event carries every field."""
    GAP_CREATE = "GAP_CREATE"
    """Created, but the event could not be made: read the record back."""
    GAP_UPDATE = "GAP_UPDATE"
    """Updated, but the event could not be made: read the record back."""
    GAP_DELETE = "GAP_DELETE"
    """Deleted, but the event could not be made: confirm with queryAll."""
    GAP_UNDELETE = "GAP_UNDELETE"
    """Undeleted, but the event could not be made: read the record back."""
    GAP_OVERFLOW = "GAP_OVERFLOW"
    """The transaction had more changes than events are made for: read the whole entity back."""
    SNAPSHOT = "SNAPSHOT"
    """In schemas since 2026, its content is not documented: its values are not trusted, the record is read back."""
    UNKNOWN = "UNKNOWN"
    """A symbol newer than this package: what it does to a record cannot be known, so the record is read back."""

    @classmethod
    def of_symbol(cls, symbol: str) -> ChangeType:
        """Return the change type of a schema's symbol."""
        return _BY_SYMBOL.get(symbol, cls.UNKNOWN)

    @property
    def is_gap(self) -> bool:
        """Whether Salesforce says that it could not make the full event."""
        return self.value.startswith("GAP_")

    @property
    def carries_all_fields(self) -> bool:
        """Whether the event sets every field of its schema, null where null."""
        return self in (ChangeType.CREATE, ChangeType.UNDELETE)


_BY_SYMBOL: dict[str, ChangeType] = {member.value: member for member in ChangeType}

CHANGE_TYPE_SYMBOLS = (
    "CREATE",
    "UPDATE",
    "DELETE",
    "UNDELETE",
    "GAP_CREATE",
    "GAP_UPDATE",
    "GAP_DELETE",
    "GAP_UNDELETE",
    "GAP_OVERFLOW",
    "SNAPSHOT",
)
"""The symbols of the newest schemas, in wire order; older schemas have the first nine."""
