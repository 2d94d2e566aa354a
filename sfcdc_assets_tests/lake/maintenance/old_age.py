"""What an old warehouse costs: `python -m sfcdc_assets_tests.lake.maintenance.old_age --commits 100000 --batches
10000`.

A warehouse that an emulated org filled is measured after 100 more commits on each table. Then it ages, with a night of
maintenance now and then, and is measured again: in the morning, and on the evening before the next night. Each
measurement is a process of its own, its memory the most it had, its time that of the first round and the best of later
ones: a sensor's process opens the tables again and again. The morning may cost 1.5 times what the young warehouse
costs; otherwise it ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sfcdc_assets.apply.entity_tables import evolve_tables
from sfcdc_assets.apply.plan import plan
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.open_tables import OpenTables
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.pack_by_count import MANY_FILES, pack_where_many
from sfcdc_assets.lake.maintenance.table_upkeep import LOG_HOURS, Retention
from sfcdc_assets.lake.tables.consistent_cuts import latest_cut
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.status.status import status_of
from sfcdc_assets_tests.lake.maintenance.aged_warehouse import RECORD, AgedLog, age_entity, age_raw_events
from sfcdc_assets_tests.pipeline.simulation.quiet_pipeline import ENTITY, quiet
from sfcdc_assets_tests.pipeline.stream import CHANNEL
from sfcdc_assets_tests.run_contexts import run_on

ROOT = Path(__file__).parents[3]
YOUNG = 100
LIMIT = 1.5
REPEATED = 7
TABLES = [
    f"{layer}/{ENTITY}" for layer in ("snapshot", "text_fields", "gap_reconciliation", "history", "current_state")
]
Measured = Mapping[str, tuple[float, float, float]]
"""What was done -> milliseconds the first time in a process and later, MB."""


def a_tick(warehouse: Warehouse) -> None:
    """What a tick without news looks at in the tables."""
    raw_events = RawEvents.open(warehouse)
    raw_events.checkpoint(CHANNEL)
    raw_events.landed_at_ms(CHANNEL)
    raw_events.last_positions(CHANNEL)
    del raw_events  # a tick holds no handle beside the next one: the other would be a commit behind
    entity_states(warehouse, {ENTITY: CHANNEL})
    assert latest_cut(warehouse, CHANNEL) is not None


def a_tick_with_news(warehouse: Warehouse) -> None:
    """The same, after an event was landed."""
    raw_events = RawEvents.open(warehouse)
    checkpoint = raw_events.checkpoint(CHANNEL)
    position = checkpoint.position + 1
    row = {"channel": CHANNEL, "position": position, "entity_name": ENTITY, "record_ids": [RECORD], "event_id": "new"}
    now = datetime.now(UTC)
    rows = pa.Table.from_pylist([{**row, "commit_timestamp": now, "received_at": now}], schema=RAW_EVENTS)
    raw_events.commit(rows, replace(checkpoint, position=position, complete_position=position))
    del raw_events  # whoever opens the table next has its handle
    a_tick(warehouse)


def a_status(warehouse: Warehouse) -> None:
    """`sfcdc status`."""
    assert not status_of(warehouse, load_settings()).damaged


def a_plan(warehouse: Warehouse) -> None:
    """An apply until its job begins: tables are opened and what is new is found."""
    spark: Any = None
    opened = OpenTables.open(warehouse, ENTITY)
    tables = evolve_tables(run_on(warehouse), opened, RawEvents.open(warehouse), Schemas(warehouse), CHANNEL)
    planned = plan(tables, spark, None)
    tables.raw_events.files(ENTITY, CHANNEL, planned.batch.after, planned.batch.up_to)


WORK: Mapping[str, Callable[[Warehouse], None]] = {
    "tick": a_tick,
    "tick with news": a_tick_with_news,
    "plan": a_plan,
    "status": a_status,
}


def measure_here(warehouse: Warehouse, what: str) -> dict[str, float]:
    """In a process that did nothing else: the first time, and the best of the times after it."""
    times = []
    for _ in range(REPEATED):
        begun = time.perf_counter()
        WORK[what](warehouse)
        times.append(time.perf_counter() - begun)
    most = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"first": times[0] * 1000, "ms": min(times[1:]) * 1000, "mb": int(most.split()[1]) / 1024}


def measured(warehouse: Warehouse) -> Measured:
    """All of it."""
    found = {}
    for what in WORK:
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--measure", what, "--dir", warehouse.root]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SFCDC_WAREHOUSE": warehouse.root}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)
        noted = json.loads(done.stdout.splitlines()[-1])
        found[what] = noted["first"], noted["ms"], noted["mb"]
    return found


def show(when: str, now: Measured, young: Measured | None = None) -> bool:
    """A line for each; whether all are within the limit."""
    ratios = []
    for what, (first, ms, mb) in now.items():
        noted = f"{when:<28} {what:<15} first {first:8.1f} ms, then {ms:8.1f} ms, {mb:5.0f} MB"
        if young is not None:
            first_young, ms_young, mb_young = young[what]
            ratios += [ms / ms_young, mb / mb_young]
            noted += f"   {first / first_young:6.2f} {ms / ms_young:6.2f} {mb / mb_young:6.2f} times"
        print(noted, flush=True)
    return max(ratios, default=0) <= LIMIT


def a_day_passes(warehouse: Warehouse, share: float = 1.0) -> None:
    """What the logs have is a day older now, or a share of it."""
    for path in warehouse.folder.glob("**/_delta_log/*"):
        os.utime(path, (path.stat().st_mtime - 86_400 * share,) * 2)


def a_busy_day(warehouse: Warehouse, commits: int, batches: int) -> None:
    """A day as it is deployed, after a night: small files are packed when there are `MANY_FILES`, as the job `pack`
    does, and the log of `raw_events` is cleaned with its checkpoints, as writers do. It ends just before a packing."""
    done = 0
    while done < commits:
        for packed in pack_where_many(warehouse, None):
            assert packed.problem is None, packed
        count = min(MANY_FILES - 1, commits - done)
        a_day_passes(warehouse, count / commits)
        age(warehouse, count, max(1, count * batches // commits))
        table = Table.open(warehouse, "raw_events")
        assert table is not None
        table.clean_log()
        done += count


def night(warehouse: Warehouse, log_hours: int) -> None:
    """Maintenance."""
    begun = time.monotonic()
    done = list(maintain(warehouse, Retention(7, log_hours=log_hours), clock.now_ms()))
    assert [str(each) for each in done if each.problem or each.left] == []
    print(
        f"  a night: {sum(each.packed for each in done):,} files packed, {time.monotonic() - begun:.1f} s", flush=True
    )


def run(commits: int, batches: int, night_every: int, log_hours: int, folder: Path) -> bool:
    """Make it old and measure; whether it costs no more than it may."""
    with pytest.MonkeyPatch.context() as patch, quiet(folder, patch, records=20) as pipeline:
        pipeline.sync()
        for number in range(3):
            pipeline.update(pipeline.ids()[0], Phone=str(number), Description="a line\n" * 50)
            pipeline.catch_up()
        warehouse = pipeline.warehouse
    age(warehouse, YOUNG, YOUNG)
    young = measured(warehouse)
    show(f"{YOUNG} commits", young)
    done, entity_done = YOUNG, YOUNG
    while done < commits:
        count = min(night_every, commits - done)
        entity_count = min(batches - entity_done, max(1, count * batches // commits))
        begun = time.monotonic()
        a_day_passes(warehouse)
        age(warehouse, count, entity_count)
        done, entity_done = done + count, entity_done + entity_count
        print(f"  {done:,} commits, {entity_done:,} batches; made in {time.monotonic() - begun:.0f} s", flush=True)
        if done >= commits:
            show("the evening", measured(warehouse), young)
        night(warehouse, log_hours)
    return show(f"{done:,} commits, the morning", measured(warehouse), young)


def age(warehouse: Warehouse, commits: int, batches: int) -> None:
    """Commits on `raw_events`, and batches that applied them."""
    last = age_raw_events(warehouse, CHANNEL, ENTITY, commits)
    age_entity(warehouse, CHANNEL, ENTITY, last, batches)
    for name in ("raw_events", "consistent_cuts", *TABLES):
        AgedLog(warehouse, name).checkpoint()


def main() -> None:
    """Read the command line, run, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100_000, help="on raw_events")
    parser.add_argument("--batches", type=int, default=10_000, help="commits on each of an entity's tables")
    parser.add_argument("--night-every", type=int, default=17_000, help="commits on raw_events between nights")
    parser.add_argument("--log-hours", type=int, default=LOG_HOURS, help="for how long logs are kept")
    parser.add_argument("--dir", type=Path, default=None, help="a new folder for the warehouse")
    parser.add_argument("--measure", choices=[*WORK], default=None, help="only this, of the warehouse in --dir")
    given = parser.parse_args()
    if given.measure is not None:
        print(json.dumps(measure_here(Warehouse(str(given.dir)), given.measure)))
        return
    folder = given.dir or Path(
        tempfile.mkdtemp(prefix="old-age-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )
    folder.mkdir(parents=True, exist_ok=True)
    print(f"in {folder}", flush=True)
    if not run(given.commits, given.batches, given.night_every, given.log_hours, folder):
        print(f"an old warehouse costs more than {LIMIT} times what a young one does")
        sys.exit(1)
    print(f"an old warehouse costs at most {LIMIT} times what a young one does")


if __name__ == "__main__":
    main()
