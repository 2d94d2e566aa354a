"""The tables of a channel's entities, opened at the versions of a consistent cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import CutGone, NoCut, TableDamaged
from sfcdc_assets.lake.tables.consistent_cuts import Cut, channels_with_cuts, latest_cut, was_made_after
from sfcdc_assets.lake.warehouse import Warehouse

__all__ = ["DeltaTable", "OpenCut", "cuts_at"]


class OpenCut(Mapping[str, DeltaTable]):
    """Path below the warehouse, as `current_state/Account` -> the table at the cut's version, opened when asked for.

    A version stays readable for `SFCDC_CUT_RETENTION_DAYS`, unless the table is rebuilt: then it raises `CutGone`; of
    a table whose log cannot be read `TableDamaged`.
    """

    def __init__(self, warehouse: Warehouse, cut: Cut) -> None:
        self.cut = cut
        self._warehouse = warehouse

    def __getitem__(self, path: str) -> DeltaTable:
        version = self.cut.tables[path]
        try:
            table = DeltaTable(self._warehouse.uri(path), version=version)
        except (DeltaError, TableNotFoundError):
            table = None
        if table is None:
            Table.open(self._warehouse, path)  # one that is damaged raises what mends it
        if table is None or was_made_after(self.cut, Table(path, table)):
            raise CutGone(path, version, self.cut.position)
        return table

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise a file that cannot be read as `CutGone` where its table has it no more: another client has removed old
        files, and the table is as it should be."""
        try:
            yield
        except TableDamaged as damage:
            version = self.cut.tables.get(damage.table)
            if version is None or damage.file is None or self._has_still(damage.table, damage.file):
                raise
            raise CutGone(damage.table, version, self.cut.position) from damage

    def _has_still(self, path: str, file: str) -> bool:
        table = Table.open(self._warehouse, path)
        return table is not None and unquote(file) in {unquote(each.path) for each in table.files()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.cut.tables)

    def __len__(self) -> int:
        return len(self.cut.tables)


def cuts_at(warehouse: Warehouse, at: datetime | None = None, channel: str | None = None) -> tuple[OpenCut, ...]:
    """Return the newest cut of each channel, or of one, or the newest that was committed at or before `at` (with zone).
    Raises `NoCut` where there is none."""
    channels = channels_with_cuts(warehouse) if channel is None else (channel,)
    found = [cut for each in channels if (cut := latest_cut(warehouse, each, at)) is not None]
    if not found:
        raise NoCut(warehouse.root, channel or "", at)
    return tuple(OpenCut(warehouse, cut) for cut in found)
