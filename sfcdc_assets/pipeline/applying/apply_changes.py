"""Bring an entity's tables up to the last complete transaction.

One Spark job gives everything; the tables are then committed in an order that a crash may cut anywhere: text values,
doubts (of other entities' records too), quarantine, superseded versions, and last `current_state`, whose commit is the
batch's commit point. What a batch left in the other tables before it crashed is removed by the next one (`checkpoint`);
the ledger of doubts and the quarantine know what they have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from sfcdc_assets import clock
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.change_events.raw_event_rows import QUARANTINE
from sfcdc_assets.lake import current_state, history, raw_events, snapshots, text_fields
from sfcdc_assets.lake.checkpoint import Checkpoint
from sfcdc_assets.lake.gap_reconciliation import ENTITY, OpenDoubt
from sfcdc_assets.lake.quarantine import quarantine
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.table import NewFile
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.applying.entity_tables import EntityTables
from sfcdc_assets.pipeline.applying.failed_task import report_file_damage
from sfcdc_assets.pipeline.applying.implied_doubts import compare_snapshots, doubt_others
from sfcdc_assets.pipeline.applying.plan import BatchPlan, plan
from sfcdc_assets.state.apply import EventRange, apply_events
from sfcdc_assets.state.doubt import Doubt
from sfcdc_assets.state.doubt_behaviour import UNMARKED
from sfcdc_assets.state.key_range_task import APPLIED, KeyRangeTask


@dataclass(frozen=True)
class ApplyReport:
    """What a batch did to one entity's tables; counts are records but `events`, `duplicates` and `waiting` (events).

    `version` is the Delta version of `current_state` after it; `doubts_opened` are those of this batch by reason,
    `open_doubts` what the ledger holds after it.
    """

    entity: str
    channel: str
    from_position: int
    to_position: int
    events: int
    duplicates: int
    inserted: int
    updated: int
    deleted: int
    waiting: int
    read_back: int
    texts: int
    versions: int
    doubts_opened: Mapping[str, int]
    doubts_healed: int
    open_doubts: Mapping[str, int]
    key_ranges_written: int
    bytes_written: int
    rows: int
    version: int
    snapshot: int
    seconds: float
    schema_before: pa.Schema | None
    schema: pa.Schema


@retry_on_conflict
def apply_entity(
    warehouse: Warehouse,
    spark: SparkSession,
    privacy: Privacy,
    entity: str,
    channel: str,
    run_id: str,
    up_to: int | None = None,
) -> ApplyReport:
    """Apply the channel's complete events, new snapshots and new read-backs, if any, to the entity's tables.

    Events up to position `up_to` are applied, by default up to the last complete transaction that has landed.

    Running it again changes nothing (guarantee 2): how far it came is read from, and moved by, the very commit that
    swaps the files. When another writer was first, everything is retried. Raises `SnapshotMissing`,
    `OtherChannel`, `PrivacyChanged`, `TableDamaged`, `TableNotWritten`.
    """
    started = time.monotonic()
    with report_file_damage(warehouse, entity):
        tables = EntityTables.open(warehouse, spark, privacy, entity, channel, clock.now_ms)
        tables.settle()
        planned = plan(tables, spark, up_to)
        written = _written(tables, spark, planned)
    return _Commit(tables, planned, run_id).of(written, started)


def _written(tables: EntityTables, spark: SparkSession, planned: BatchPlan) -> pa.Table:
    """Run the job; what its tasks wrote (`APPLIED`), which no commit names yet."""
    batch, warehouse = planned.batch, tables.warehouse
    event_files = tables.raw_events.files(tables.entity, tables.channel, batch.after, batch.read_to)
    if not planned.visit and not (batch.events and event_files):
        return APPLIED.empty_table()
    events = EventRange(
        tables.channel,
        batch.after,
        batch.read_to,
        tuple(file.path for file in event_files),
        warehouse.filesystem(raw_events.NAME),
        {schema.schema_id: schema.schema_json for schema in tables.schemas.of_entity(tables.entity)},
        batch.duplicates,
    )
    task = KeyRangeTask(
        columns=tables.columns,
        key_ranges=planned.key_ranges,
        batch=tables.checkpoint.batch + 1,
        filesystem=warehouse.filesystem(current_state.name_of(tables.entity)),
        texts=warehouse.filesystem(text_fields.name_of(tables.entity)),
        history=warehouse.filesystem(history.name_of(tables.entity)),
        reads=warehouse.filesystem(snapshots.name_of(tables.entity)),
        org_reads=planned.org_reads,
        read_back_taken=tuple(file.path for file in tables.taken.read_back_files()) if planned.read_backs else (),
        up_to=batch.up_to,
        roll_back_to=planned.roll_back_to,
        all_in_doubt=planned.all_in_doubt,
    )
    return apply_events(spark, events, task, planned.visit)


class _Commit:
    """The commits of one application."""

    def __init__(self, tables: EntityTables, planned: BatchPlan, run_id: str) -> None:
        self._tables = tables
        self._planned = planned
        self._run_id = run_id

    def of(self, written: pa.Table, started: float) -> ApplyReport:
        """Commit what the tasks wrote, table by table, and tell what it came to."""
        tables, batch = self._tables, self._planned.batch
        results = written.to_pylist()
        before, checkpoint = tables.checkpoint, self._checkpoint()
        is_new = bool(results) or replace(checkpoint, batch=before.batch) != before
        texts = [file for result in results for file in result["texts"]]
        doubts = [doubt for result in results for doubt in result["doubts"]]
        found = self._planned.entity_doubt
        if found is not None:
            doubts.append(
                {"record_id": ENTITY, "reason": found.reason, "position": found.position, "detail": found.detail}
            )
        if is_new:
            tables.texts.append([_new_file(file) for file in texts], checkpoint.batch)
        opened = tables.ledger.note(doubts, tables.channel, batch.up_to, clock.now_ms())
        self._quarantine(doubts)
        silent = [each for result in results for each in result["silent"]]
        doubt_others(tables.warehouse, tables.channel, silent)
        added: list[NewFile] = []
        if is_new:
            superseded = [_new_file(file) for result in results for file in result["superseded"]]
            tables.history.append(superseded, checkpoint.batch)
            added = self._commit_current_state(results, checkpoint)
            for each in (tables.texts, tables.history):
                each.note_built()
                if each.has_leftovers(checkpoint):
                    each.clean(checkpoint)
        healed = self._close_doubts()
        compare_snapshots(tables.warehouse, {column.name for column in tables.columns})
        summed = ("inserted", "updated", "deleted", "waiting", "versions")
        counts = {name: pc.sum(written[name]).as_py() or 0 for name in summed}
        return ApplyReport(
            entity=tables.entity,
            channel=tables.channel,
            from_position=batch.after,
            to_position=batch.up_to,
            events=batch.events,
            duplicates=len(batch.duplicates),
            read_back=len(self._planned.record_ids),
            texts=sum(file["rows"] for file in texts),
            doubts_opened=dict(Counter(doubt["reason"] for doubt in opened)),
            doubts_healed=healed,
            open_doubts=tables.ledger.counts(),
            key_ranges_written=len(added),
            bytes_written=sum(file.size for file in added),
            rows=tables.current_state.table.count(),
            version=tables.current_state.table.version,
            snapshot=tables.snapshot.number,
            seconds=time.monotonic() - started,
            schema_before=tables.schema_before,
            schema=tables.current_state.schema,
            **counts,
        )

    def _checkpoint(self) -> Checkpoint:
        """What is in the tables after this application."""
        tables, planned = self._tables, self._planned
        before = tables.checkpoint
        batch = before.batch + 1
        after = replace(
            before,
            batch=batch,
            position=planned.batch.up_to,
            snapshot=max(tables.snapshot.number, before.snapshot),
            read_back=max(tables.taken.last_read_back(), before.read_back),
            doubted=planned.doubted or before.doubted,
            read_at=max(before.read_at, tables.taken.read_at()) if planned.org_reads else before.read_at,
        )
        if planned.roll_back_to is None:
            return after
        return replace(after, went_back=batch, went_back_to=planned.roll_back_to)

    def _commit_current_state(self, results: list[dict], checkpoint: Checkpoint) -> list[NewFile]:
        table, planned = self._tables.current_state, self._planned
        added = [_new_file(file) for result in results for file in result["files"]]
        files = table.files()
        rewritten = {result["key_range"] for result in results if result["rewritten"]}
        replaced = {
            path for key_range in planned.key_ranges if key_range.number in rewritten for path in key_range.files
        }
        everything = bool(planned.snapshots) or self._tables.from_scratch
        removed = list(files.values()) if everything else [files[path] for path in sorted(replaced)]
        run = {"dagster_run_id": self._run_id, "from_position": str(planned.batch.after)}
        table.commit(added, removed, self._tables.channel, checkpoint, run)
        return added

    def _quarantine(self, doubts: list[dict]) -> None:
        """Keep the bodies that could not be decoded, with the reason."""
        tables = self._tables
        errors = {each["position"]: each["detail"] for each in doubts if each["reason"] == Doubt.UNDECODABLE_PAYLOAD}
        if errors:
            rows = raw_events.payloads(tables.warehouse, tables.entity, tables.channel, sorted(errors))
            description = [{**row, "channel": tables.channel, "error": errors[row["position"]]} for row in rows]
            if tables.privacy.concerns(tables.entity):
                description = [
                    {**row, "payload": None} for row in description
                ]  # raw_events has it, and no other table may
            writer = f"{tables.channel}:{tables.entity}"
            quarantine(tables.warehouse, pa.Table.from_pylist(description, schema=QUARANTINE), writer)

    def _close_doubts(self) -> int:
        """Heal the doubts that the table no longer has: its rows, not this process's memory, say so."""
        ledger, watermark = self._tables.ledger, self._tables.snapshot.position
        channel = self._tables.channel
        doubts = ledger.open_doubts()
        of_entity = [doubt for doubt in doubts if doubt.record_id == ENTITY]
        answered = [each for each in of_entity if not each.refuses_a_read and each.position_on(channel) <= watermark]
        vanished = [each for each in of_entity if each.reason == Doubt.VANISHED]
        if vanished and not self._waits_to_be_accepted(doubts):
            answered += vanished
        positions = {ENTITY: watermark}
        of_records = [doubt for doubt in doubts if doubt.record_id != ENTITY]
        if of_records:
            free = self._tables.current_state.free_of_doubt([doubt.record_id for doubt in of_records])
            positions |= free
            # A row that an audit found to have drifted is not marked: only a reading ends that doubt.
            answered += [
                doubt
                for doubt in of_records
                if free.get(doubt.record_id, -1) >= doubt.position_on(channel)
                and (doubt.reason not in UNMARKED or doubt.record_id in self._planned.record_ids)
            ]
        ledger.heal(answered, positions, clock.now_ms())
        return len(answered)

    def _waits_to_be_accepted(self, doubts: Sequence[OpenDoubt]) -> bool:
        """A snapshot, or records that were read back, are still not believed."""
        taken = Snapshots.open(self._tables.warehouse, self._tables.entity)
        return (taken is not None and taken.refused() is not None) or any(doubt.not_believed for doubt in doubts)


def _new_file(file: Mapping) -> NewFile:
    return NewFile(file["path"], file["size"], file["statistics"])
