"""A morning's backlog: a million waiting events of eight entities, recent and old records mixed, landed and applied by
one `sfcdc sync`, beside what one would write instead.

The others are spared the stream and its decoding: each is given the changes as rows, a flag beside each field saying
whether it was set. Structured Streaming reads them in micro-batches, folds each to a row a record in Spark, and merges
it with deltalake (Delta's own MERGE for Spark needs files from Maven). A sink as Debezium's for JDBC changes one row
after another, here of SQLite, with a trigger's work for the history.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.all_versions import all_versions
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.version_columns import SYSTEM_COLUMNS
from sfcdc_assets_tests.benchmarks.against_merge import session
from sfcdc_assets_tests.benchmarks.client_process import ClientRun, run_client
from sfcdc_assets_tests.benchmarks.emulator_command import EmulatorCommand, emulator_command
from sfcdc_assets_tests.benchmarks.merge_pair import IS_SET, VALID_FROM, MergePair
from sfcdc_assets_tests.benchmarks.org_process import clean_environment, sfcdc
from sfcdc_assets_tests.benchmarks.stage import Figure, Goal, Stage, WrongAnswer

CHANNEL = "/data/ChangeEvents"
STREAMING, ROWS = "Structured Streaming and MERGE", "row by row, SQLite"
NO_LIMIT = 10**9
_AT_ONCE = 500
"""Rows that a sink commits at once."""


def measure(quick: bool) -> Sequence[Figure]:
    """A quarter of the events first: what memory they take is what all of them are compared with.

    The eight objects are the emulated org's own, of 28 (Task) to 79 (Account) fields: 360 in all, 45 of each in the
    mean.
    """
    records, few, events, batch = (50, 300, 1_200, 200) if quick else (20_000, 250_000, 1_000_000, 20_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with emulator_command(folder / "org", records) as org:
            org.post("/emulator/settings", json={"daily_event_deliveries": NO_LIMIT, "daily_api_requests": NO_LIMIT})
            env = {**clean_environment(), **org.org.settings, "SFCDC_WAREHOUSE": str(folder / "warehouse")}
            sfcdc("sync", env=env, cwd=folder)
            quarter = _caught_up(org, env, few)
            warehouse = Warehouse(str(folder / "warehouse"))
            position = RawEvents.open(warehouse).last_position(CHANNEL)
            before = {entity: _rows(warehouse, entity) for entity in warehouse.entities("current_state")}
            whole = _caught_up(org, env, events)
            landed = RawEvents.open(warehouse).last_position(CHANNEL) - position
            sfcdc("verify", env=env, cwd=folder)
            org.interrupt()
        backlogs = [_backlog(warehouse, entity, rows, position) for entity, rows in before.items()]
        with session() as spark:
            streaming = sum(_streamed(spark, each, folder / "streamed" / each.entity, batch) for each in backlogs)
        row_by_row = sum(_row_by_row(each, folder / f"{each.entity}.db") for each in backlogs)
    peers = {STREAMING: [landed / streaming], ROWS: [landed / row_by_row]}
    rate = [landed / whole.seconds]
    case = f"{landed:,} waiting events"
    return [
        Figure(case, "events/s", rate, peers, Goal(25_000, at_least=True)),
        Figure(
            f"{case}, five times the streaming MERGE",
            "events/s",
            rate,
            {STREAMING: peers[STREAMING]},
            Goal(5, STREAMING, at_least=True),
        ),
        Figure(
            "the most memory of a process", "MB", [whole.mb], {"a quarter": [quarter.mb]}, Goal(1.2, of="a quarter")
        ),
    ]


def _caught_up(org: EmulatorCommand, env: Mapping[str, str], events: int) -> ClientRun:
    """Have the org make so many, then land and apply all of them."""
    while events > 0:
        events -= org.post("/emulator/traffic", json={"events": min(events, 50_000), "mix": "load"})["events"]
    return run_client("sfcdc_assets.cli", "sync", "--until-caught-up", settings=env)


@dataclass(frozen=True)
class _Backlog:
    """What an entity was, what changed (`_position` and a flag for each field), and what it came to."""

    entity: str
    names: Sequence[str]
    before: pa.Table
    changes: pa.Table
    after: pa.Table


def _rows(warehouse: Warehouse, entity: str) -> pa.Table:
    table = CurrentState.open(warehouse, entity)
    assert table is not None
    system = {*SYSTEM_COLUMNS.names} - {VALID_FROM}
    columns = [name for name in table.schema.names if name not in system]
    return table.table.scan(columns).replace_schema_metadata(None)


def _backlog(warehouse: Warehouse, entity: str, before: pa.Table, position: int) -> _Backlog:
    names = [name for name in before.column_names if name not in ("Id", VALID_FROM)]
    versions = all_versions(warehouse, entity, f"_position > {position}")
    assert versions is not None
    frame = arrow_frame(versions).sort("_position")
    is_set = [
        (pl.col("_changed_fields").list.contains(name).fill_null(value=True)).alias(IS_SET + name) for name in names
    ]
    changes = frame.select("Id", *names, *is_set, VALID_FROM, "_position").to_arrow()
    return _Backlog(entity, names, before, changes, _rows(warehouse, entity))


def _streamed(spark: SparkSession, of: _Backlog, folder: Path, batch: int) -> float:
    """Seconds of a stream that reads the changes, `batch` of all entities at once, and merges them."""
    source, first = folder / "changes", of.changes["_position"][0].as_py()
    source.mkdir(parents=True)
    numbers = (pl.Series(of.changes["_position"]) - first) // batch
    frame = arrow_frame(of.changes).with_columns(numbers.alias("number"))
    for (number,), part in frame.partition_by("number", as_dict=True, maintain_order=True).items():
        pq.write_table(part.drop("number").to_arrow().cast(of.changes.schema), source / f"{number:06}.parquet")
    pair = MergePair.made(of.before, of.names, folder / "pair")
    wanted = pair.row_schema.names

    def merge(rows: DataFrame, _number: int) -> None:
        latest = [
            sf.expr(f"max_by(`{name}`, _position) FILTER (WHERE `{IS_SET}{name}`)").alias(name) for name in of.names
        ]
        flags = [sf.expr(f"bool_or(`{IS_SET}{name}`)").alias(IS_SET + name) for name in of.names]
        folded = rows.groupBy("Id").agg(*latest, *flags, sf.max(VALID_FROM).alias(VALID_FROM)).toArrow()
        typed = pa.schema([pair.row_schema.field(each.name) if each.name in wanted else each for each in folded.schema])
        pair.apply(folded.cast(typed))

    schema = spark.read.parquet(str(source)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    begun = time.perf_counter()
    query = stream.writeStream.foreachBatch(merge).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    seconds = time.perf_counter() - begun
    _compare(STREAMING, of, pair.current_rows().collect())
    return seconds


def _row_by_row(of: _Backlog, file: Path) -> float:
    """Seconds of a sink that changes the row, ends the version before it, and adds the new one."""
    plain = _plain(of.before)
    columns = plain.columns
    listed = ", ".join(f'"{name}"' for name in columns)
    with sqlite3.connect(file) as database:
        database.execute(f'CREATE TABLE rows ({listed}, PRIMARY KEY ("Id"))')
        database.execute(f"CREATE TABLE past ({listed}, valid_to)")
        database.execute('CREATE INDEX past_open ON past ("Id") WHERE valid_to IS NULL')
        database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(columns))})", plain.rows())
        database.execute(f"INSERT INTO past SELECT {listed}, NULL FROM rows")
        database.commit()
        changes = _plain(of.changes)
        begun = time.perf_counter()
        for number, row in enumerate(changes.iter_rows(named=True)):
            names = [name for name in of.names if row[IS_SET + name]]
            set_to = ", ".join(f'"{name}" = ?' for name in (*names, VALID_FROM))
            values = [row[name] for name in (*names, VALID_FROM)]
            database.execute(f'UPDATE rows SET {set_to} WHERE "Id" = ?', [*values, row["Id"]])
            database.execute(
                'UPDATE past SET valid_to = ? WHERE "Id" = ? AND valid_to IS NULL', (row[VALID_FROM], row["Id"])
            )
            database.execute(f'INSERT INTO past SELECT {listed}, NULL FROM rows WHERE "Id" = ?', (row["Id"],))
            if number % _AT_ONCE == 0:
                database.commit()
        database.commit()
        seconds = time.perf_counter() - begun
        found = database.execute(f"SELECT {listed} FROM rows").fetchall()
    _compare(ROWS, of, pl.DataFrame(found, schema=plain.schema, orient="row"))
    return seconds


def _plain(rows: pa.Table) -> pl.DataFrame:
    """Values as every database has them: times are microseconds."""
    frame = arrow_frame(rows)
    return frame.with_columns(pl.selectors.temporal().to_physical(), pl.selectors.boolean().cast(pl.Int64))


def _compare(who: str, of: _Backlog, found: pl.DataFrame) -> None:
    """Raises `WrongAnswer` where a field of a row is another one than ours."""
    ours, theirs = (frame.select("Id", *of.names).sort("Id") for frame in (_plain(of.after), _plain(found.to_arrow())))
    wrong = [name for name in ours.columns if not ours[name].equals(theirs[name].cast(ours[name].dtype))]
    if wrong:
        raise WrongAnswer(f"{who}: {', '.join(wrong)} of {of.entity} differ from what our table has")


STAGE = Stage(
    "A backlog of events",
    measure,
    "Every row with the org, by `sfcdc verify`; the tables of the other two with ours, field by field.",
    "The landing's gRPC read and its Parquet files, then a Spark job a batch with three commits an entity, and "
    "Dagster's reports of each run; the org that serves the events works on the same two cores. The streaming MERGE "
    "takes one entity after another, which favours ours where one stream leaves a core idle.",
)
