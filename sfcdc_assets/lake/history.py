"""`history/<Entity>`: every version of a record, the open ones in Id-range leaves, the closed ones appended.

Transaction versions as in `current_state`: `<channel>`, `snapshot` and `refetch` say what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.table import DataFile, NewFile, Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.state.history import history_schema
from sfcdc_assets.state.leaves import closed_at, holds_closed_versions, holds_open_versions

LAYER = "history"


def name_of(entity: str) -> str:
    """Path of the entity's table below the warehouse."""
    return f"{LAYER}/{entity}"


class History:
    """A handle on one snapshot of an entity's versions."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open_or_create(cls, warehouse: Warehouse, entity: str, columns: Sequence[Column]) -> History:
        """The newest snapshot, created with these columns when there is none."""
        schema = history_schema(columns)
        table = Table.open_or_create(
            warehouse, name_of(entity), schema, statistics_on=["Id", "_position", "_valid_from", "_valid_to"]
        )
        return cls(table)

    def has(self, application: str) -> int:
        """Version of a source that is in the table; 0 for none."""
        return self.table.transaction_version(application) or 0

    def open_files(self) -> dict[str, DataFile]:
        """The files of open versions, by path."""
        return {file.path: file for file in self.table.files() if holds_open_versions(file.path)}

    def files_closed_after(self, position: int) -> dict[str, DataFile]:
        """The files of versions that were closed by what was applied after a position, by path."""
        closed = [file for file in self.table.files() if holds_closed_versions(file.path)]
        return {file.path: file for file in closed if closed_at(file.path) > position}

    def commit(self, added: Sequence[NewFile], removed: Sequence[DataFile], versions: Mapping[str, int]) -> None:
        """Swap the open versions of the touched leaves and append the closed ones. Raises `ConcurrentCommit`."""
        if added or removed or any(version > self.has(application) for application, version in versions.items()):
            self.table.swap_files(added, removed, versions, {})
