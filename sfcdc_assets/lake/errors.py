"""What can go wrong with the tables, each with the table and the remedy."""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError


class WarehouseNotWritable(SfcdcError):
    """The warehouse's root cannot be written."""

    def __init__(self, root: str, reason: str) -> None:
        self.root = root
        super().__init__(
            f"SFCDC_WAREHOUSE: the warehouse {root} cannot be written ({reason}). "
            "Point it to a folder or an object store this process may write to."
        )


class ConcurrentCommit(SfcdcError):
    """Another writer committed first; nothing of this attempt is in the table. Reopen, decide anew, try again."""

    def __init__(self, table: str, reason: str) -> None:
        self.table = table
        super().__init__(f"Table {table}: another writer committed first ({reason}). Reopen the table and try again.")


class UnreadableTable(SfcdcError):
    """A table carries features that its plain Parquet files do not tell (deletion vectors, column mapping)."""

    def __init__(self, table: str, features: str) -> None:
        self.table = table
        super().__init__(
            f"Table {table} uses {features}, which change what its files mean. "
            "Make it anew with `sfcdc rebuild`, and do not set such features on it."
        )
