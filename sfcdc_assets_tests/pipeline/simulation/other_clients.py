"""What other Delta clients do to the tables of a simulated history between two rounds, where these are in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.pipeline.commits import another_memory
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import (
    clean_up_logs,
    compact,
    deal_out,
    tables,
    vacuum,
    z_order,
)
from sfcdc_assets_tests.pipeline.simulation.diary import Diary

MAINTAINED, VACUUMED, CLEANED_UP = 0.3, 0.15, 0.15
"""Shares of the rounds after which somebody else's client compacts some tables, deletes all files that their present
versions do not need, or removes all commits before the present ones."""
DEALT_OUT = 0.3
"""Share of the tables of records that are compacted into files whose ranges of Ids overlap."""


class OtherClients:
    """They act by dice of their own."""

    def __init__(self, warehouse: Warehouse, seed: int, diary: Diary) -> None:
        self._folder = warehouse.folder if warehouse.is_local else None
        self._warehouse, self._diary = warehouse, diary
        self._dice, self._dealer = Random(f"outside:{seed}"), Random(f"dealt out:{seed}")

    def come(self) -> None:
        """Perhaps compact, vacuum, and clean up logs."""
        if self._dice.random() < MAINTAINED:
            self.compact()
        if self._dice.random() < VACUUMED:
            for table in self._tables():
                self._only_readable_from(table)
                vacuum(table)
        if self._dice.random() < CLEANED_UP and self._folder is not None:
            for table in self._tables():
                self._only_readable_from(table)
            clean_up_logs(self._folder, time.time())

    def compact(self) -> None:
        """Write files again, some so that their ranges of Ids overlap."""
        if self._folder is None:
            return
        for table in self._tables():
            if len(table.file_uris()) > 1:
                self._dice.choice((compact, z_order))(table)
        with another_memory():
            for layer in ("current_state", "history"):
                for entity in self._warehouse.entities(layer):
                    if self._dealer.random() < DEALT_OUT:
                        deal_out(self._warehouse, f"{layer}/{entity}", self._dealer.choice((2, 3)))

    def _tables(self) -> list[DeltaTable]:
        return list(tables(self._folder)) if self._folder is not None else []

    def _only_readable_from(self, table: DeltaTable) -> None:
        assert self._folder is not None
        name = Path(unquote(urlsplit(table.table_uri).path)).relative_to(self._folder)
        self._diary.unreadable[str(name)] = table.version()
