"""Bring `current_state/<Entity>` up to the last complete transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import tenacity
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.landing import QUARANTINE
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake import current_state, raw_events, snapshots
from sfcdc_assets.lake.current_state import CurrentState, id_ranges
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.quarantine import quarantine
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import CompleteSnapshot, Snapshots
from sfcdc_assets.lake.table import NewFile
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.columns import entity_columns
from sfcdc_assets.state.apply import APPLIED, ApplyTask, EventRange, apply_events
from sfcdc_assets.state.leaves import Leaf, leaves_of_snapshot, leaves_of_table
from sfcdc_assets.state.sample import sample_ids


class SnapshotMissing(SfcdcError):
    """Events cannot be applied to an entity whose rows before them were never read."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no complete snapshot. Its events wait in raw_events; launch the job `snapshot` for {entity}, "
            "or run `sfcdc sync`."
        )


@dataclass(frozen=True)
class ApplyReport:
    """What a batch did to one entity's table. Times in ms, UTC; `version` is the Delta version after it."""

    entity: str
    channel: str
    from_position: int
    to_position: int
    events: int
    inserted: int
    updated: int
    deleted: int
    in_doubt: int
    undecodable: int
    leaves_written: int
    bytes_written: int
    rows: int
    version: int
    snapshot: int
    seconds: float
    schema: pa.Schema

    @property
    def changed(self) -> bool:
        """False when the table already had everything."""
        return self.leaves_written > 0


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(ConcurrentCommit), stop=tenacity.stop_after_attempt(5), reraise=True
)
def apply_entity(warehouse: Warehouse, spark: SparkSession, entity: str, channel: str, run_id: str) -> ApplyReport:
    """Apply the channel's complete events, and a new snapshot if there is one, to the entity's table.

    Running it again changes nothing (guarantee 2): how far it came is read from, and moved by, the very commit that
    swaps the files. When another writer was first, everything is decided anew. Raises `SnapshotMissing`.
    """
    started = time.monotonic()
    events_table = RawEvents.open(warehouse)
    complete = events_table.complete_position(channel)
    taken = Snapshots.open(warehouse, entity)
    snapshot = taken.complete() if taken else None
    if snapshot is None:
        raise SnapshotMissing(entity)
    present = CurrentState.open(warehouse, entity)
    schemas = Schemas(warehouse)
    columns = entity_columns(schemas, entity, present.schema if present else None)
    table = CurrentState.open_with(warehouse, entity, columns)
    columns = entity_columns(schemas, entity, table.schema)
    rebuild = snapshot.number > table.snapshot_number()
    after = snapshot.position if rebuild else max(table.applied(channel) or 0, snapshot.position)
    files = table.files()
    event_files = tuple(file.path for file in events_table.files(entity, channel, after, complete))
    written = APPLIED.empty_table()
    leaves: tuple[Leaf, ...] = ()
    if rebuild or event_files:
        leaves = _leaves(warehouse, spark, entity, table, snapshot if rebuild else None)
        task = ApplyTask(
            columns=columns,
            schemas={schema.schema_id: schema.schema_json for schema in schemas.of_entity(entity)},
            leaves=leaves,
            events=EventRange(channel, after, complete, event_files, warehouse.filesystem(raw_events.NAME)),
            filesystem=warehouse.filesystem(current_state.name_of(entity)),
            page_filesystem=warehouse.filesystem(snapshots.name_of(entity)) if rebuild else None,
            pin=snapshot.position,
        )
        written = apply_events(spark, task)
        bad = _undecodable(warehouse, entity, channel, written)
        quarantine(warehouse, bad, f"{channel}:{entity}")
    added = [NewFile(row["path"], row["size"], row["statistics"]) for row in written.to_pylist() if row["path"]]
    touched = set(written["leaf"].to_pylist())
    replaced = {path for leaf in leaves if leaf.number in touched for path in leaf.files}
    removed = list(files.values()) if rebuild else [files[path] for path in sorted(replaced)]
    if added or removed or complete > (table.applied(channel) or -1):
        versions = {channel: complete, current_state.SNAPSHOT: max(snapshot.number, table.snapshot_number())}
        table.commit(added, removed, versions, {"dagster_run_id": run_id, "from_position": str(after)})
    return ApplyReport(
        entity=entity,
        channel=channel,
        from_position=after,
        to_position=complete,
        leaves_written=len(added),
        bytes_written=sum(file.size for file in added),
        rows=table.table.count(),
        version=table.table.version,
        snapshot=snapshot.number,
        seconds=time.monotonic() - started,
        schema=table.schema,
        undecodable=sum(len(found or ()) for found in written["undecodable"].to_pylist()),
        **{name: pc.sum(written[name]).as_py() or 0 for name in _COUNTS},
    )


_COUNTS = ("events", "inserted", "updated", "deleted", "in_doubt")


def _leaves(
    warehouse: Warehouse, spark: SparkSession, entity: str, table: CurrentState, snapshot: CompleteSnapshot | None
) -> tuple[Leaf, ...]:
    present = id_ranges(list(table.files().values()))
    if snapshot is None:
        return leaves_of_table(present)
    pages = id_ranges(snapshot.files)
    sampled = sample_ids(spark, [page.path for page in pages], warehouse.filesystem(snapshots.name_of(entity)))
    return leaves_of_snapshot(sampled, snapshot.rows, pages, present)


def _undecodable(warehouse: Warehouse, entity: str, channel: str, written: pa.Table) -> pa.Table:
    """Quarantine rows, by position, of the events whose bodies could not be decoded."""
    errors = {
        event["position"]: event["error"] for events in written["undecodable"].to_pylist() for event in events or ()
    }
    if not errors:
        return QUARANTINE.empty_table()
    rows = raw_events.payloads(warehouse, entity, channel, sorted(errors))
    return pa.Table.from_pylist(
        [{**row, "channel": channel, "error": errors[row["position"]]} for row in rows], schema=QUARANTINE
    )
