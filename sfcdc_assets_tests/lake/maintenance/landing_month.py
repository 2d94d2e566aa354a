"""A month of landing, day after day in one process: `python -m sfcdc_assets_tests.lake.maintenance.landing_month
--write`.

Each tick lands an event of each of six objects and looks at what a sensor's tick looks at; small files are packed when
there are many, and every night has its maintenance, after which all that is written is a day older. Of each day are
noted: the files of `raw_events` and of its log in the evening, the processor time that a tick took (median), and the
memory of the process.
With `--write` the points go to docs/landing-month.json, and their picture to docs/images/landing-month.svg.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfcdc_assets.lake.maintenance import pack_by_count
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.pack_by_count import files_to_pack, pack_where_many
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.tables.raw_events import NAME, RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.streams.checkpoint import StreamCheckpoint
from sfcdc_assets_tests.docs.line_plot import Line, Panel, drawn
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.lake.test_raw_events import CHANNEL, events

ENTITIES = ("Account", "Contact", "Lead", "Opportunity", "Case", "Task")
POINTS, PICTURE = ROOT / "docs" / "landing-month.json", ROOT / "docs" / "images" / "landing-month.svg"
LOOKS = 12
"""Ticks between two looks whether there is something to pack: a minute of them."""


@dataclass(frozen=True)
class Day:
    """What was noted in the evening; times are medians of the day's ticks, in milliseconds of the processor."""

    day: int
    files: int
    log_files: int
    landing_ms: float
    looking_ms: float
    memory_mb: float


class LandingMonth:
    """The process that ticks, and its warehouse."""

    def __init__(self, warehouse: Warehouse, ticks_a_day: int) -> None:
        self.warehouse = warehouse
        self._ticks_a_day = ticks_a_day
        self._position = 0

    def days(self, count: int) -> Iterator[Day]:
        """One after another."""
        for day in range(1, count + 1):
            landing, looking = zip(*(self._tick(number) for number in range(self._ticks_a_day)), strict=True)
            yield self._evening(day, landing, looking)
            self._night()

    def _tick(self, number: int) -> tuple[float, float]:
        began = time.process_time()
        shape = pa.concat_tables(events(number, entity=entity) for number, entity in enumerate(ENTITIES, 1))
        last = self._position + len(ENTITIES)
        positions = pa.array(range(self._position + 1, last + 1), pa.int64())
        rows = shape.set_column(shape.schema.get_field_index("position"), "position", positions)
        RawEvents.open(self.warehouse).commit(rows, StreamCheckpoint(CHANNEL, last, last))
        self._position = last
        landed = time.process_time()
        raw_events = RawEvents.open(self.warehouse)
        assert raw_events.checkpoint(CHANNEL).position == last
        assert raw_events.last_positions(CHANNEL)
        if number % LOOKS == 0 and files_to_pack(self.warehouse, None) >= pack_by_count.MANY_FILES:
            assert [done.failure for done in pack_where_many(self.warehouse, None)] == [None]
        return landed - began, time.process_time() - landed

    def _evening(self, day: int, landing: Sequence[float], looking: Sequence[float]) -> Day:
        gc.collect()
        pa.default_memory_pool().release_unused()
        status = Path("/proc/self/status").read_text().splitlines()
        memory = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))
        log = self.warehouse.folder / NAME / "_delta_log"
        milliseconds = [round(statistics.median(each) * 1000, 1) for each in (landing, looking)]
        files = len(RawEvents.open(self.warehouse).table.files())
        return Day(day, files, sum(1 for _ in log.iterdir()), milliseconds[0], milliseconds[1], round(memory, 1))

    def _night(self) -> None:
        done = list(maintain(self.warehouse, Retention(7), clock.now_ms()))
        assert [each.failure for each in done if each.failure] == []
        for log in self.warehouse.folder.rglob("_delta_log"):
            _age_tombstones(log)
        for path in self.warehouse.folder.rglob("*"):
            if path.is_file():
                os.utime(path, (path.stat().st_mtime - 86_400,) * 2)


def _age_tombstones(log: Path) -> None:
    """Files were replaced a day earlier."""

    def older(action: dict[str, Any]) -> dict[str, Any]:
        if action.get("remove"):
            action["remove"]["deletionTimestamp"] -= 86_400_000
        return action

    for commit in log.glob("*.json"):
        lines = commit.read_text().splitlines()
        commit.write_text("\n".join(json.dumps(older(json.loads(line))) for line in lines))
    for checkpoint in log.glob("*.checkpoint.parquet"):
        rows = pq.read_table(checkpoint)
        pq.write_table(pa.Table.from_pylist([older(each) for each in rows.to_pylist()], rows.schema), checkpoint)


def picture(days: Sequence[Day]) -> str:
    """The points as an SVG."""

    def line(name: str, field: str) -> Line:
        return Line(name, tuple((day.day, float(getattr(day, field))) for day in days))

    return drawn(
        "A month of landing",
        "day",
        (
            Panel("files of raw_events, in the evening", (line("data files", "files"), line("log files", "log_files"))),
            Panel(
                "milliseconds of a tick, on the processor",
                (line("landing", "landing_ms"), line("looking", "looking_ms")),
            ),
            Panel("MB of the process", (line("memory", "memory_mb"),)),
        ),
    )


def main() -> None:
    """Read the command line, run, print the points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--ticks", type=int, default=180, help="a day; the daemon makes 17,000")
    parser.add_argument("--write", action="store_true", help="the points and their picture into docs/")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        days = []
        for day in LandingMonth(Warehouse(folder), given.ticks).days(given.days):
            print(day, flush=True)
            days.append(day)
    if given.write:
        points = {"ticks_a_day": given.ticks, "days": [asdict(day) for day in days]}
        POINTS.write_text(json.dumps(points, indent=1) + "\n")
        PICTURE.write_text(picture(days))


if __name__ == "__main__":
    main()
