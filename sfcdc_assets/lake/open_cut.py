"""Open all tables at a consistent cut: they show the org as it was after one transaction, over all objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from sfcdc_assets.lake.consistent_cuts import Cut, channels_with_cuts, latest_cut, newest_cuts, was_made_after
from sfcdc_assets.lake.errors import CutGone, NoCut, SeveralChannels
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.warehouse import Warehouse


class OpenCut(Mapping[str, DeltaTable]):
    """Path below the warehouse, as `current_state/Account` -> the table at the cut's version, opened when asked for.

    A version stays readable for `SFCDC_CUT_RETENTION_DAYS`, unless the table is rebuilt: then it raises `CutGone`.
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
        if table is None or was_made_after(self.cut, Table(path, table)):
            raise CutGone(path, version, self.cut.position)
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(self.cut.tables)

    def __len__(self) -> int:
        return len(self.cut.tables)


def open_cut(warehouse: str, *, channel: str | None = None, at: datetime | None = None) -> OpenCut:
    """The newest cut of the warehouse at this root, or the newest that was committed at or before `at` (with zone).

    `channel` is needed where several have cuts: each has its own order. Raises `NoCut`, `SeveralChannels`.
    """
    checkpoint = Warehouse(warehouse)
    if channel is None:
        channels = channels_with_cuts(checkpoint)
        if len(channels) > 1:
            raise SeveralChannels(channels)
        channel = channels[0] if channels else ""
    found = latest_cut(checkpoint, channel, at)
    if found is None:
        raise NoCut(warehouse, channel, at)
    return OpenCut(checkpoint, found)


def newest_open_cuts(warehouse: str) -> tuple[OpenCut, ...]:
    """The newest cut of each channel. Raises `NoCut` where there is none."""
    checkpoint = Warehouse(warehouse)
    found = newest_cuts(checkpoint)
    if not found:
        raise NoCut(warehouse, "", None)
    return tuple(OpenCut(checkpoint, cut) for cut in found)
