"""What a consumer's question costs: 1,000 changed records of 8 million, among the newest and anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import polars as pl

from sfcdc_assets.consistent_cut import changes_since
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets_tests.benchmarks.against_merge import entity, session
from sfcdc_assets_tests.benchmarks.large_entity import CHANNEL, ENTITY, LargeEntity, record_id
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

ROUNDS, BATCHES, COMMITS, FIELDS = 3, 20, 700, 9
"""Batches of recent changes before the question, and commits that maintenance leaves of a month's: those of an hour."""

_ASK = """
import json, sys, threading, time
import polars
import sfcdc_assets.changes.entity_changes
from sfcdc_assets.consistent_cut import changes_since
root, entity, token = sys.argv[1:]
peak, done = [0], threading.Event()
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def watch():
    while not done.wait(0.002):
        peak[0] = max(peak[0], rss())
before = rss()
threading.Thread(target=watch, daemon=True).start()
started, cpu = time.monotonic(), time.process_time()
told, _ = changes_since(root, entity, token)
seconds, cpu = time.monotonic() - started, time.process_time() - cpu
done.set()
used = max(0, max(peak[0], rss()) - before)
print(json.dumps({"seconds": seconds, "cpu": cpu, "bytes": used, "rows": told.num_rows}))
"""
"""Asked in a process of its own, which has opened nothing yet and whose memory can be told."""


def measure(quick: bool) -> Sequence[Figure]:
    """After some batches and many commits; each round asks for what the last batch changed."""
    rows, count, rounds, batches, commits = (
        (20_000, 100, 1, 2, 5) if quick else (8_000_000, 1_000, ROUNDS, BATCHES, COMMITS)
    )
    dice = np.random.default_rng(27)
    figures: list[Figure] = []
    with session() as spark, entity(spark, rows, fields=FIELDS) as (of, _):
        for _ in range(batches):
            of.land(of.random_changes(of.recent(count, dice), dice))
            of.apply()
        state = CurrentState.open(of.warehouse, ENTITY)
        assert state is not None
        for _ in range(commits):
            state.fence()
        of.clean()
        for where, chosen in (("the newest", of.recent), ("all", of.anywhere)):
            asked = []
            for _ in range(rounds):
                _cut(of)
                _, token = changes_since(of.warehouse.root, ENTITY, of.position)
                before, changed = of.current_rows().collect(), of.random_changes(chosen(count, dice), dice)
                of.land(changed)
                of.apply()
                _cut(of)
                _compare(of, token, before, [record_id(number) for number, _ in changed])
                asked.append(_asked(of.warehouse, token, count))
            case = f"{count:,} changed records among {where} of {rows:,}"
            figures.append(Figure(case, "s", [each["seconds"] for each in asked], goal=Goal(1.0)))
            figures.append(Figure(case, "s of CPU", [each["cpu"] for each in asked], goal=Goal(1.0)))
            figures.append(Figure(case, "MB", [each["bytes"] / 1e6 for each in asked], goal=Goal(200)))
    return figures


def _cut(of: LargeEntity) -> None:
    """Tie the tables' newest versions together, as a run does at its end."""
    opened = {name: Table.open(of.warehouse, name) for name in (current_state.name_of(ENTITY), history.name_of(ENTITY))}
    now = datetime.now(UTC)
    versions = {name: table.version for name, table in opened.items() if table is not None}
    add_cut(of.warehouse, Cut(CHANNEL, of.position, now, versions), now)


def _compare(of: LargeEntity, token: str, before: pl.DataFrame, changed: Sequence[str]) -> None:
    """Each record is told once, with every field as the table has it now, and those that changed as it had them."""
    reported = pl.DataFrame(changes_since(of.warehouse.root, ENTITY, token)[0])
    if sorted(reported["Id"]) != sorted(changed):
        raise WrongAnswer(f"{reported.height} records are told, of {len(changed)} that have changed")
    names = list(of.names)
    now = (
        of.current_rows().join(pl.LazyFrame({"Id": reported["Id"]}), on="Id", how="semi").select("Id", *names).collect()
    )
    if not reported.select("Id", *names).sort("Id").equals(now.sort("Id")):
        raise WrongAnswer("the rows that are told are not those of the table")
    was = reported.select("Id").join(before, on="Id", how="left", maintain_order="left")
    values = reported["_before"].struct.unnest()
    for name in names:
        expected = was[name].ne_missing(reported[name]) & reported["_before"].is_not_null()
        shown = reported["_changed_fields"].list.contains(name).fill_null(value=False)
        if (
            not (shown == expected).all()
            or not values[name].eq_missing(pl.select(pl.when(expected).then(was[name])).to_series()).all()
        ):
            raise WrongAnswer(f"{name} is not told as it was before")


def _asked(warehouse: Warehouse, token: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-c", _ASK, warehouse.root, ENTITY, token]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongAnswer(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    if found["rows"] != count:
        raise WrongAnswer(f"{found['rows']} records are told, of {count} that have changed")
    return found


STAGE = Stage(
    "Changes since a token",
    measure,
    "Every field of every record that is told, after and before, with the tables of then and now, and that no other "
    "record is told.",
    "Reading the pieces in which the records lie: of records that lie anywhere these are all. Measured beside other "
    "work on all cores, so the seconds of CPU are what the question takes by itself.",
)
