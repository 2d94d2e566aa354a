"""`text_fields/<Entity>`: every full value of a large text field, appended batch by batch.

Its transaction versions say what it has: `<channel>` the position of events, `refetch` the number of the last refetch,
`snapshot` that of the last snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfcdc_assets.lake.table import NewFile, Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.state.text_fields import TEXT_FIELDS

LAYER = "text_fields"


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


class TextFields:
    """A handle on one snapshot of an entity's text values."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str) -> TextFields:
        """The newest snapshot, created empty when there is none."""
        return cls(
            Table.open_or_create(warehouse, name_of(entity), TEXT_FIELDS, statistics_on=["record_id", "position"])
        )

    def has(self, application: str) -> int:
        """Version of a source that is in the table; 0 for none."""
        return self.table.transaction_version(application) or 0

    def append(self, files: Sequence[NewFile], versions: Mapping[str, int]) -> None:
        """Add a batch's files and note what is in the table now. Nothing is committed when nothing is new."""
        if files or any(self.has(application) < version for application, version in versions.items()):
            self.table.swap_files(files, [], versions, {})
