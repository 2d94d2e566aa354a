"""What a batch costs that touches many entities: `python -m sfcdc_assets_tests.pipeline.apply.many_entities
--entities 100`.

Each number of entities gets a warehouse of its own, made without an org: schemas, a snapshot and events are written as
snapshots and landing write them. One process and one Spark session catch up with day zero and then with batches of 20
events an entity, of which the last gives `seconds`: the first ones start workers. At the end every row is compared
with what the events say, and history with what they superseded; a fast wrong answer ends with exit code 1.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.change_events.columns import columns
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets.snapshot.pages import page_schema
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.spark.session import spark_session
from sfcdc_assets_tests.change_events.written_event import (
    bitmap_of,
    described_object,
    event_schema,
    header,
    payload,
    texts,
)
from sfcdc_assets_tests.run_contexts import run_on

CHANNEL = "/data/ChangeEvents"
EVENTS = 20
FIELDS = 30
BEGUN_MS = 1_700_000_000_000
FOREVER_SECONDS = 10**9


@dataclass
class Entities:
    """Entities of one warehouse, and what their records are."""

    warehouse: Warehouse
    names: Sequence[str]
    records: int
    position: int = 0
    values: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    """Entity -> record id -> field -> value."""
    versions: Counter[str] = field(default_factory=Counter)
    """Entity -> superseded versions."""

    def __post_init__(self) -> None:
        self._fields = [f"Field{number}__c" for number in range(FIELDS)]
        self._schemas = {name: event_schema(*texts(*self._fields), entity=name) for name in self.names}

    def copied(self, folder: Path) -> Entities:
        """The same in a folder that is not there yet."""
        shutil.copytree(self.warehouse.root, folder)
        values, versions = deepcopy(self.values), Counter(self.versions)
        return replace(self, warehouse=Warehouse(str(folder)), values=values, versions=versions)

    def day_zero(self) -> None:
        """Schemas and a complete snapshot of each entity, taken at a watermark of the stream's beginning."""
        schemas = Schemas(self.warehouse)
        fields = [{"name": "Id", "type": "id"}, *({"name": n, "type": "string"} for n in self._fields)]
        for name in self.names:
            schema_json = json.dumps(self._schemas[name])
            described = described_object(fields)
            describe_json = json.dumps(described.to_json())
            schemas.add(EventSchema(f"schema of {name}", schema_json, name, BEGUN_MS, describe_json))
            found = columns(self._schemas[name], described)
            taken = Snapshots.open_or_create(self.warehouse, name, found)
            progress = SnapshotProgress(
                1, name, CHANNEL, 0, "job", "next", 0, 0, complete=False, started_at_ms=BEGUN_MS,
                fields=("Id", *self._fields),
            )  # fmt: skip
            taken.begin(progress)
            ids = [f"a{self.names.index(name):04}{number:010}AAA" for number in range(self.records)]
            self.values[name] = {each: dict.fromkeys(self._fields, "day zero") for each in ids}
            known = {"_is_deleted": False, "_system_modstamp": datetime.fromtimestamp(BEGUN_MS / 1000, UTC)}
            rows = [{"Id": each, **known, **values} for each, values in self.values[name].items()]
            page = pa.Table.from_pylist(rows, schema=page_schema(found))
            done = replace(progress, complete=True, next_locator=None, pages_done=1, rows_done=len(rows))
            taken.add_page(page, done, BEGUN_MS)

    def land(self, commits: int) -> None:
        """`EVENTS` of each entity, in so many commits."""
        for number in range(commits):
            first = EVENTS * number // commits
            events = range(first, EVENTS * (number + 1) // commits)
            rows = [self._event(name, event) for event in events for name in self.names]
            raw_events = RawEvents.open(self.warehouse)
            checkpoint = replace(
                raw_events.checkpoint(CHANNEL), position=self.position, complete_position=self.position
            )
            raw_events.commit(pa.Table.from_pylist(rows, schema=RAW_EVENTS), replace(checkpoint, begun="EARLIEST"))

    def _event(self, name: str, number: int) -> dict[str, Any]:
        """The next change of one record, in a transaction of its own."""
        self.position += 1
        ids = list(self.values[name])
        record_id = ids[number * 7 % len(ids)]
        changed = self._fields[number % FIELDS]
        value = f"at {self.position}"
        self.values[name][record_id][changed] = value
        self.versions[name] += 1
        schema, at = self._schemas[name], BEGUN_MS + self.position * 1000
        description = {"recordIds": [record_id], "commitTimestamp": at, "changedFields": bitmap_of(schema, changed)}
        key = f"transaction {self.position}"
        body = payload(schema, header(entityName=name, transactionKey=key, **description), {changed: value})
        return {
            "channel": CHANNEL,
            "position": self.position,
            "replay_id": self.position.to_bytes(8, "big"),
            "event_id": f"event {self.position}",
            "schema_id": f"schema of {name}",
            "payload": body,
            "entity_name": name,
            "record_ids": [record_id],
            "change_type": "UPDATE",
            "transaction_key": key,
            "sequence_number": 1,
            "commit_timestamp": datetime.fromtimestamp(at / 1000, UTC),
            "commit_number": self.position,
            "commit_user": "005Dp000000PpjsIAC",
            "received_at": datetime.fromtimestamp(at / 1000, UTC),
        }

    def differences(self) -> list[str]:
        """What the tables do not have as the events say."""
        found = []
        for name in self.names:
            table = pa.table(
                DeltaTable(self.warehouse.uri(f"current_state/{name}")).scan(columns=["Id", *self._fields])
            )
            rows = {row.pop("Id"): row for row in table.to_pylist()}
            if rows != self.values[name] or table.num_rows != len(rows):
                found.append(f"current_state/{name}")
            history = pa.table(DeltaTable(self.warehouse.uri(f"history/{name}")).scan(columns=["Id", "_position"]))
            if history.num_rows != self.versions[name]:
                found.append(f"history/{name}: {history.num_rows} versions, not {self.versions[name]}")
        return found


@dataclass(frozen=True)
class Measured:
    """Seconds of a catch-up, Spark jobs, tables opened (from nothing, and by any way) and commits."""

    seconds: float
    jobs: int
    opens: int
    new_handles: int
    commits: int

    def __str__(self) -> str:
        counts = f"{self.opens} opens ({self.new_handles} of them from nothing), {self.commits} commits"
        return f"{self.seconds:6.2f} s, {self.jobs} Spark jobs, {counts}"


class Counts:
    """What happens between two looks."""

    def __init__(self) -> None:
        self.opens = self.new_handles = self.commits = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in this block."""
        from sfcdc_assets.lake.delta.handles import Handle, Handles  # noqa: PLC0415 - patched here only

        def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                setattr(self, name, getattr(self, name) + 1)
                return original(*arguments, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Handles, "take", counting("opens", Handles.take))
            patch.setattr(Handle, "new", counting("new_handles", Handle.new))
            for name in ("create_write_transaction", "delete", "merge"):
                patch.setattr(DeltaTable, name, counting("commits", getattr(DeltaTable, name)))
            yield


def catch_up(of: Entities, spark: SparkSession | None = None, listener: ApplyListener | None = None) -> None:
    """A run over all entities, when the last event has come."""
    channels, landed = dict.fromkeys(of.names, CHANNEL), LandedOnly(of.warehouse, {CHANNEL: BEGUN_MS})
    run = run_on(of.warehouse, _NoOrg(), lambda: spark, visibility_seconds=0.0, describe_seconds=FOREVER_SECONDS)
    with clock.using(_TimeOf(of)):
        CatchUp(run, landed, channels, channels, listener or ApplyListener(), every_entity=False).run()


class _TimeOf(clock.Clock):
    """An event a second."""

    def __init__(self, of: Entities) -> None:
        self._of = of

    def now_ms(self) -> int:
        return BEGUN_MS + self._of.position * 1000


class _NoOrg:
    """All that a run takes from the org where nothing is read back and no object is described."""

    session = SimpleNamespace(calls=0)

    def describe(self, entity: str) -> None:
        """It does not say."""

    def members(self, channel: str) -> None:
        """Nor this."""


def measure(work: Callable[[], None], spark: SparkSession) -> Measured:
    """Do it and count."""
    counts, tracker = Counts(), spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    with counts.counted():
        begun = time.monotonic()
        work()
        seconds = time.monotonic() - begun
    jobs = len(set(tracker.getJobIdsForGroup()) - before)
    return Measured(seconds, jobs, counts.opens, counts.new_handles, counts.commits)


def main() -> int:
    """Measure, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entities", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--records", type=int, default=200, help="records of each entity")
    parser.add_argument("--commits", type=int, default=2, help="commits that land a batch's events")
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="say where the driver's time goes in the last batch")
    description = parser.parse_args()
    spark = spark_session(load_settings())
    wrong: list[str] = []
    for count in description.entities:
        with tempfile.TemporaryDirectory(prefix="many_entities.") as folder:
            names = [f"Entity{number:04}__c" for number in range(count)]
            of = Entities(Warehouse(str(Path(folder) / "warehouse")), names, description.records)
            of.day_zero()
            of.land(description.commits)
            print(f"{count:4} entities, day zero  {measure(lambda of=of: catch_up(of, spark), spark)}", flush=True)
            for number in range(1, description.batches + 1):
                of.land(description.commits)
                profile = cProfile.Profile()
                if description.profile and number == description.batches:
                    profile.enable()
                done = measure(lambda of=of: catch_up(of, spark), spark)
                profile.disable()
                print(
                    f"{count:4} entities, batch {number}   {done}, {done.seconds / count:.3f} s an entity", flush=True
                )
            if description.profile:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
            wrong += of.differences()
    print("\n".join(wrong) or "every row and version is as the events say")
    spark.stop()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
