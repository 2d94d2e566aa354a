"""What a warehouse takes on a disk while batches come and cuts thin out: it stops growing when cuts are as old as they
get, and follows from how many are kept."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.maintain import thin_out
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut, cuts
from sfcdc_assets.lake.warehouse import Warehouse

pytestmark = pytest.mark.slow

CHANNEL = "/data/ChangeEvents"
STATE, HISTORY = "current_state/Account", "history/Account"
SCHEMA = pa.schema([("Id", pa.string()), ("number", pa.int64())])
HOUR = 3_600


@dataclass(frozen=True)
class Size:
    """Of the tables that cuts name."""

    data_files: int
    history_files: int
    log_files: int
    data_bytes: int
    log_bytes: int
    cuts: int


class BusyDay:
    """A batch every so many seconds replaces the rows of a table and appends to another; every hour cuts thin out."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, seconds: int, retention: Retention, rows: int, minute: int = 0
    ) -> None:
        """`minute`: of the hour, in which cuts thin out."""
        self._minute = minute
        self.warehouse = Warehouse(str(folder))
        self._seconds, self._retention, self._rows = seconds, retention, rows
        self._now = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
        self._seen: set[str] = set()
        self._batch = 0
        for name in (STATE, HISTORY):
            Table.open_or_create(self.warehouse, name, SCHEMA)
        self._date_back()
        clock = SimpleNamespace(time=lambda: self._now, monotonic=time.monotonic)
        patch.setattr("sfcdc_assets.lake.maintenance.table_upkeep.time", clock)

    def go_on(self, hours: float) -> Size:
        for _ in range(int(hours * HOUR / self._seconds)):
            self._now += self._seconds
            self._one_batch()
            if int(self._now - self._minute * 60) % HOUR < self._seconds:
                now_ms = int(self._now * 1000)
                assert not [done.failure for done in thin_out(self.warehouse, self._retention, now_ms) if done.failure]
                self._date_back()
        return self.size

    @property
    def size(self) -> Size:
        folders = [self.warehouse.folder / name for name in (STATE, HISTORY)]
        data = [path for folder in folders for path in folder.glob("*.parquet")]
        log = [path for folder in folders for path in (folder / "_delta_log").iterdir() if path.is_file()]
        sizes = [sum(path.stat().st_size for path in paths) for paths in (data, log)]
        of_history = sum(path.parent == folders[1] for path in data)
        return Size(len(data), of_history, len(log), *sizes, len(cuts(self.warehouse)))

    @property
    def living_bytes(self) -> int:
        table = Table.open(self.warehouse, STATE)
        assert table is not None
        return sum(file.size for file in table.files())

    def every_cut_opens(self) -> None:
        for cut in cuts(self.warehouse):
            for name, version in cut.tables.items():
                table = Table.open(self.warehouse, name, version)
                assert table is not None
                assert table.scan(["number"], "number is not null").num_rows

    def _one_batch(self) -> None:
        self._batch += 1
        table = Table.open(self.warehouse, STATE)
        past = Table.open(self.warehouse, HISTORY)
        assert table is not None
        assert past is not None
        numbers = [self._batch] * self._rows
        rows = pa.table({"Id": [f"{number:018}" for number in range(self._rows)], "number": numbers}, SCHEMA)
        before = table.files()
        table.append(rows, {}, {})
        table = Table.open(self.warehouse, STATE)
        assert table is not None
        table.swap_files([], before, {}, {})
        past.append(rows.slice(0, 1), {}, {})
        reached = datetime.fromtimestamp(self._now, UTC)
        versions = {STATE: self._version(STATE), HISTORY: self._version(HISTORY)}
        assert add_cut(self.warehouse, Cut(CHANNEL, self._batch, reached, versions), reached)
        self._date_back()

    def _version(self, name: str) -> int:
        table = Table.open(self.warehouse, name)
        assert table is not None
        return table.version

    def _date_back(self) -> None:
        """New files were written now, by the clock of this day."""
        for name in (STATE, HISTORY):
            for folder in (self.warehouse.uri(name), f"{self.warehouse.uri(name)}/_delta_log"):
                with os.scandir(folder) as found:
                    new = [each.path for each in found if each.path not in self._seen and each.is_file()]
                for path in new:
                    os.utime(path, (self._now, self._now))
                self._seen.update(new)


def test_files_and_bytes_follow_from_the_cuts_that_are_kept_and_stop_growing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch every six minutes for sixteen hours; all cuts are kept for two hours, then one an hour. The hour's last
    batch comes after its maintenance."""
    an_hour = 10
    retention = Retention(1, minute_cut_hours=2, batch_cut_hours=1)
    day = BusyDay(tmp_path, monkeypatch, HOUR // an_hour, retention, rows=500, minute=48)
    at_first, later = day.go_on(10), day.go_on(6)
    for size, hours in ((at_first, 10), (later, 16)):
        assert size.cuts <= 2 * an_hour + hours + an_hour, "and those of the hour since they last thinned out"
        files_of_state = size.data_files - size.history_files
        assert files_of_state <= size.cuts + 2 * an_hour, "and those that were forgotten within the last two hours"
        assert size.history_files <= 3 * hours + 3 * an_hour, "of an hour what was packed and what came after it"
        assert size.log_files <= 2 * (size.cuts + 10 * an_hour)
    new = later.data_files - at_first.data_files
    assert new <= 3 * 6 + an_hour, "a file of the state and some of history for each hour's cut"
    day.every_cut_opens()
