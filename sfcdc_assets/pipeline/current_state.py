"""Bring an entity's tables up to the last complete transaction.

One Spark job gives everything; the tables are then committed in an order that a crash may cut anywhere: text values,
doubts (of other entities' records too), quarantine, versions, and last `current_state`, whose commit moves the applied
position. A repetition starts from that position and finds what it already wrote by each table's own transaction
versions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.landing import QUARANTINE
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake import current_state, history, raw_events, snapshots, text_fields
from sfcdc_assets.lake.current_state import DOUBTED, READ_AT, REFETCH, SNAPSHOT, CurrentState, id_ranges
from sfcdc_assets.lake.decide_anew import decide_anew
from sfcdc_assets.lake.gap_reconciliation import ENTITY, Ledger, entity_doubts
from sfcdc_assets.lake.history import History
from sfcdc_assets.lake.quarantine import quarantine
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import CompleteSnapshot, Refetches, Snapshots
from sfcdc_assets.lake.table import NewFile
from sfcdc_assets.lake.text_fields import TextFields
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.batch import Batch, read_batch
from sfcdc_assets.pipeline.columns import RETIRED, entity_columns, retired_columns
from sfcdc_assets.pipeline.silent_change import compare_snapshots, doubt_others
from sfcdc_assets.state.apply import EventRange, apply_events
from sfcdc_assets.state.doubt import UNMARKED, Doubt
from sfcdc_assets.state.leaf_task import APPLIED, LeafTask, Reads, TextTarget
from sfcdc_assets.state.leaves import Leaf, leaf_numbers, leaves_of_snapshot, leaves_of_table
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
    leaves_written: int
    bytes_written: int
    rows: int
    version: int
    snapshot: int
    seconds: float
    schema: pa.Schema


@decide_anew
def apply_entity(
    warehouse: Warehouse, spark: SparkSession, entity: str, channel: str, run_id: str, up_to: int | None = None
) -> ApplyReport:
    """Apply the channel's complete events, a new snapshot and new refetches, if any, to the entity's tables.

    Events up to position `up_to` are applied, by default up to the last complete transaction that has landed.

    Running it again changes nothing (guarantee 2): how far it came is read from, and moved by, the very commit that
    swaps the files. When another writer was first, everything is decided anew. Raises `SnapshotMissing`.
    """
    return _Application(warehouse, spark, entity, channel, run_id, up_to).run()


class _Application:
    """One application: what is there, what is new, the job, the commits."""

    def __init__(
        self,
        warehouse: Warehouse,
        spark: SparkSession,
        entity: str,
        channel: str,
        run_id: str,
        up_to: int | None,
    ) -> None:
        self._started = time.monotonic()
        self._warehouse = warehouse
        self._spark = spark
        self._entity = entity
        self._channel = channel
        self._run_id = run_id
        self._up_to = up_to
        self._doubted = 0
        self._raw_events = RawEvents.open(warehouse)
        taken = Snapshots.open(warehouse, entity)
        snapshot = taken.complete() if taken else None
        if taken is None or snapshot is None:
            raise SnapshotMissing(entity)
        self._taken = taken
        self._snapshot: CompleteSnapshot = snapshot
        self._schemas = Schemas(warehouse)
        self._ledger = Ledger.open_or_create(warehouse, entity)
        present = CurrentState.open(warehouse, entity)
        if present is not None:
            self._doubt_new_fields(present)
        self._table = CurrentState.open_with(
            warehouse, entity, entity_columns(self._schemas, entity, present.schema if present else None)
        )
        self._columns: tuple[Column, ...] = entity_columns(self._schemas, entity, self._table.schema)
        self._unread = retired_columns(self._schemas, entity, self._columns)
        self._table.table.mark_columns(sorted(self._unread), RETIRED)
        self._texts = TextFields.open_or_create(warehouse, entity)
        self._history = History.open_with(warehouse, entity, self._columns)
        built_from = min(each.has(SNAPSHOT) for each in (self._table, self._texts, self._history))
        self._rebuild = snapshot.number > built_from
        # Where a layer was removed (or never was) all are made anew: one reading of a row gives them together.
        self._anew = built_from == 0
        self._refetched = 0 if self._anew else self._table.has(REFETCH)
        self._reads: Refetches = taken.refetches(self._refetched)

    def _doubt_new_fields(self, present: CurrentState) -> None:
        """Records may have values in a new field that no event told of: the entity is read again.

        Noted before the columns are added, so that a crash between the two forgets nothing.
        """
        progress = self._taken.progress()
        read = set(progress.fields) if progress and progress.snapshot_number == self._snapshot.number else set()
        known = {*present.schema.names, *read}
        new = [c.name for c in entity_columns(self._schemas, self._entity, present.schema) if c.name not in known]
        if new and present.files():
            position = max(present.applied(self._channel) or 0, self._snapshot.position) + 1
            doubt = {"record_id": ENTITY, "reason": Doubt.NEW_FIELD, "position": position, "detail": ", ".join(new)}
            self._ledger.note([doubt], self._channel, position, _now_ms())

    def run(self) -> ApplyReport:
        batch, all_in_doubt = self._batch()
        leaves = self._leaves()
        visit = self._visit(leaves, all_in_doubt)
        event_files = self._raw_events.files(self._entity, self._channel, batch.after, batch.up_to)
        if visit or (batch.events and event_files):
            events = EventRange(
                self._channel,
                batch.after,
                batch.up_to,
                tuple(file.path for file in event_files),
                self._warehouse.filesystem(raw_events.NAME),
                {schema.schema_id: schema.schema_json for schema in self._schemas.of_entity(self._entity)},
                batch.duplicates,
            )
            written = apply_events(self._spark, events, self._task(leaves, all_in_doubt), visit)
        else:
            written = APPLIED.empty_table()
        return self._commit(batch, leaves, written)

    def _batch(self) -> tuple[Batch, bool]:
        """The events to apply, and whether an event among them puts the whole entity in doubt.

        The range begins before the applied position where a refetch's pin does: events that waited for the refetch
        lie there. What is already in the rows is dropped again by the rows' own positions.
        """
        applied = self._table.applied(self._channel) or 0
        after = self._snapshot.position if self._rebuild else max(applied, self._snapshot.position)
        if self._reads.first_position is not None:
            after = max(min(after, self._reads.first_position), self._snapshot.position)
        complete = self._raw_events.complete_position(self._channel)
        up_to = max(complete if self._up_to is None else min(complete, self._up_to), after, applied)
        held = entity_doubts(self._ledger.open_doubts(), self._snapshot.position)
        up_to = max(applied, min([up_to, *(position - 1 for position in held)]))
        batch = read_batch(self._raw_events, self._entity, self._channel, after, up_to)
        found = batch.entity_doubt
        if found is not None:
            doubt = {"record_id": ENTITY, "reason": found.reason, "position": found.position, "detail": found.detail}
            self._ledger.note([doubt], self._channel, found.position, _now_ms())
            held.append(found.position)
            batch = read_batch(self._raw_events, self._entity, self._channel, after, found.position - 1)
        self._doubted = max(held, default=0)
        # Once marked, rows stay so until they are read again; a snapshot that is older than the doubt unmarks them.
        return batch, bool(held) and (self._rebuild or self._table.has(DOUBTED) < self._doubted)

    def _leaves(self) -> tuple[Leaf, ...]:
        present = [] if self._anew else id_ranges(list(self._table.files().values()))
        versions = [] if self._anew else id_ranges(list(self._history.open_files().values()))
        if not self._rebuild:
            return leaves_of_table(present, versions)
        pages = id_ranges(self._snapshot.files)
        pages_root = self._warehouse.filesystem(snapshots.name_of(self._entity))
        sampled = sample_ids(self._spark, [page.path for page in pages], pages_root)
        return leaves_of_snapshot(sampled, self._snapshot.rows, pages, present, versions)

    def _visit(self, leaves: tuple[Leaf, ...], all_in_doubt: bool) -> set[int]:
        """Leaves to work on whether or not an event names them."""
        if self._rebuild or all_in_doubt:
            return {leaf.number for leaf in leaves}
        return set(leaf_numbers(leaves, sorted(self._reads.record_ids)))

    def _task(self, leaves: tuple[Leaf, ...], all_in_doubt: bool) -> LeafTask:
        pages_root = self._warehouse.filesystem(snapshots.name_of(self._entity))
        return LeafTask(
            columns=self._columns,
            leaves=leaves,
            filesystem=self._warehouse.filesystem(current_state.name_of(self._entity)),
            texts=TextTarget(
                self._warehouse.filesystem(text_fields.name_of(self._entity)),
                after=self._texts.has(self._channel),
                refetch=self._texts.has(REFETCH),
                snapshot=self._rebuild and self._texts.has(SNAPSHOT) < self._snapshot.number,
            ),
            history=self._warehouse.filesystem(history.name_of(self._entity)),
            snapshot=Reads(pages_root, (), None) if self._rebuild else None,
            pin=self._snapshot.position,
            reads=Reads(pages_root, tuple(file.path for file in self._reads.files), self._refetched)
            if self._reads.files
            else None,
            unread=self._unread,
            all_in_doubt=all_in_doubt,
        )

    def _commit(self, batch: Batch, leaves: tuple[Leaf, ...], written: pa.Table) -> ApplyReport:
        results = written.to_pylist()
        versions = {
            self._channel: batch.up_to,
            SNAPSHOT: max(self._snapshot.number, self._table.has(SNAPSHOT)),
            REFETCH: max(self._reads.number, self._table.has(REFETCH)),
        }
        if self._doubted:
            versions[DOUBTED] = self._doubted
        if self._rebuild or self._reads.files:
            versions[READ_AT] = max(self._table.has(READ_AT), self._taken.read_at())
        texts = [result["texts"] for result in results if result["texts"]]
        self._texts.append([_new_file(file) for file in texts], versions)
        doubts = [doubt for result in results for doubt in result["doubts"]]
        self._ledger.note(doubts, self._channel, batch.up_to, _now_ms())
        self._quarantine(doubts)
        doubt_others(self._warehouse, self._channel, [silent for result in results for silent in result["silent"]])
        self._commit_history(leaves, results, versions)
        added = [_new_file(file) for result in results for file in result["files"]]
        files = self._table.files()
        rewritten = {result["leaf"] for result in results if result["rewritten"]}
        replaced = {path for leaf in leaves if leaf.number in rewritten for path in leaf.files}
        removed = list(files.values()) if self._rebuild else [files[path] for path in sorted(replaced)]
        if added or removed or any(version > self._table.has(name) for name, version in versions.items()):
            run = {"dagster_run_id": self._run_id, "from_position": str(batch.after)}
            self._table.commit(added, removed, versions, run)
        healed = self._close_doubts()
        compare_snapshots(self._warehouse, {column.name for column in self._columns})
        counts = {name: pc.sum(written[name]).as_py() or 0 for name in ("inserted", "updated", "deleted", "waiting")}
        opened: dict[str, int] = {}
        for doubt in doubts:
            opened[doubt["reason"]] = opened.get(doubt["reason"], 0) + 1
        return ApplyReport(
            entity=self._entity,
            channel=self._channel,
            from_position=batch.after,
            to_position=batch.up_to,
            events=batch.events,
            duplicates=len(batch.duplicates),
            read_back=len(self._reads.record_ids),
            texts=sum(file["rows"] for file in texts),
            versions=pc.sum(written["versions_added"]).as_py() or 0,
            doubts_opened=opened,
            doubts_healed=healed,
            open_doubts=self._ledger.counts(),
            leaves_written=len(added),
            bytes_written=sum(file.size for file in added),
            rows=self._table.table.count(),
            version=self._table.table.version,
            snapshot=self._snapshot.number,
            seconds=time.monotonic() - self._started,
            schema=self._table.schema,
            **counts,
        )

    def _commit_history(self, leaves: tuple[Leaf, ...], results: list[dict], versions: Mapping[str, int]) -> None:
        opened = self._history.open_files()
        rewritten = {result["leaf"] for result in results if result["versions_rewritten"]}
        replaced = {path for leaf in leaves if leaf.number in rewritten for path in leaf.versions}
        self._history.commit(
            [_new_file(file) for result in results for file in result["versions"]],
            self._history.table.files()
            if self._anew
            else list(opened.values())
            if self._rebuild
            else [opened[path] for path in sorted(replaced)],
            versions,
        )

    def _quarantine(self, doubts: list[dict]) -> None:
        """Keep the bodies that could not be decoded, with the reason."""
        errors = {each["position"]: each["detail"] for each in doubts if each["reason"] == Doubt.UNDECODABLE_PAYLOAD}
        if errors:
            rows = raw_events.payloads(self._warehouse, self._entity, self._channel, sorted(errors))
            told = [{**row, "channel": self._channel, "error": errors[row["position"]]} for row in rows]
            writer = f"{self._channel}:{self._entity}"
            quarantine(self._warehouse, pa.Table.from_pylist(told, schema=QUARANTINE), writer)

    def _close_doubts(self) -> int:
        """Heal the doubts that the table no longer has: its rows, not this process's memory, say so."""
        doubts = self._ledger.open_doubts()
        answered = [d for d in doubts if d.record_id == ENTITY and d.opened_position <= self._snapshot.position]
        positions = {ENTITY: self._snapshot.position}
        of_records = [doubt for doubt in doubts if doubt.record_id != ENTITY]
        if of_records:
            free = self._table.free_of_doubt([doubt.record_id for doubt in of_records])
            positions |= free
            answered += [
                doubt
                for doubt in of_records
                if free.get(doubt.record_id, -1) >= doubt.opened_position
                and (doubt.reason not in UNMARKED or doubt.record_id in self._reads.record_ids)
            ]
        self._ledger.heal(answered, positions, _now_ms())
        return len(answered)


def _new_file(file: Mapping) -> NewFile:
    return NewFile(file["path"], file["size"], file["statistics"])


def _now_ms() -> int:
    return int(time.time() * 1000)
