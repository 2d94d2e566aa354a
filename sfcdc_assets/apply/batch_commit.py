"""Commit what an entity's tasks wrote, table by table, in an order that a crash may cut anywhere.

Text values, ledger entries (of other entities' records too), quarantine, superseded versions, and last `current_state`,
whose commit is the batch's commit point. What a batch left in the other tables before it crashed is removed by the next
one (`checkpoint`); the reconciliation ledger and the quarantine know what they have.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from sfcdc_assets.apply.applied import Applied
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.apply.implied_suspects import compare_snapshots, suspect_others
from sfcdc_assets.apply.plan import BatchPlan
from sfcdc_assets.change_events.raw_event_rows import QUARANTINE
from sfcdc_assets.key_ranges.data_file import WrittenKeyRange
from sfcdc_assets.key_ranges.range_rows import RowCounts
from sfcdc_assets.lake.delta.commit_protocol import RUN_ID
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.tables import raw_events
from sfcdc_assets.lake.tables.current_state import noted_counts
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.open_suspect import ENTITY, OpenSuspect
from sfcdc_assets.lake.tables.quarantine import quarantine
from sfcdc_assets.lake.tables.roll_backs import noting_roll_back
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.runtime import clock
from sfcdc_assets.timeline.implied_change import POINTER
from sfcdc_assets.timeline.suspect import NewSuspect, Reason
from sfcdc_assets.timeline.suspect_behaviour import UNMARKED


@dataclass(frozen=True)
class ApplyReport:
    """What a batch did to one entity's tables; counts are records but `events`, `duplicates` and `waiting` (events).

    `version` is the Delta version of `current_state` after it; `suspects_opened` are those of this batch by reason,
    `open_suspects` what the ledger holds after it. `deliveries`: events that the batch before had not, second copies
    included; `committed`: when the org committed the oldest and the newest of them, None without any. `events` has
    those too that are applied again on top of a read of the org. `has_more`: there are events for another batch.
    """

    entity: str
    channel: str
    from_position: int
    to_position: int
    events: int
    deliveries: int
    committed: tuple[datetime, datetime] | None
    duplicates: int
    inserted: int
    updated: int
    deleted: int
    waiting: int
    read_back: int
    texts: int
    versions: int
    suspects_opened: Mapping[str, int]
    suspects_healed: int
    open_suspects: Mapping[str, int]
    key_ranges_written: int
    bytes_written: int
    rows: int
    version: int
    snapshot: int
    seconds: float
    schema_before: pa.Schema | None
    schema: pa.Schema
    has_more: bool


class BatchCommit:
    """The commits of one application."""

    def __init__(self, tables: EntityTables, planned: BatchPlan, run_id: str) -> None:
        self._tables = tables
        self._planned = planned
        self._run_id = run_id

    def of(self, results: Sequence[Applied], started: float) -> ApplyReport:
        """Commit what the tasks wrote, table by table, and say what it came to. Raises `ConcurrentCommit`."""
        tables, batch = self._tables, self._planned.batch
        before, checkpoint = tables.checkpoint, self._checkpoint()
        is_new = bool(results) or replace(checkpoint, batch=before.batch) != before
        texts = [file for result in results for file in result.texts]
        suspects = [*(suspect for result in results for suspect in result.suspects), *batch.merged]
        found = self._planned.entity_suspect
        if found is not None:
            suspects.append(NewSuspect(ENTITY, found.reason, found.position, found.detail))
        suspects += self._other_channel()
        if is_new:
            tables.texts.append([_new_file(file) for file in texts], checkpoint.batch)
        opened = tables.ledger.note(suspects, tables.channel, batch.up_to, clock.now_ms())
        self._quarantine(suspects)
        silent = [each for result in results for each in result.silent]
        pointer_key = next((column.hash_key for column in tables.columns if column.name == POINTER), None)
        suspect_others(tables.warehouse, tables.channel, silent, pointer_key)
        added: list[NewFile] = []
        if is_new:
            superseded = [_new_file(file) for result in results for file in result.superseded]
            tables.history.append(superseded, checkpoint.batch)
            added = self._commit_current_state(results, checkpoint)
            for each in (tables.texts, tables.history):
                each.note_built()
                if each.has_leftovers(checkpoint):
                    each.clean(checkpoint)
        open_suspects, healed = self._close_suspects()
        compare_snapshots(tables.warehouse, {column.name for column in tables.columns}, tables.privacy.key)
        committed = batch.committed_after(before.position)
        summed = ("inserted", "updated", "deleted", "waiting", "versions")
        counts = {name: sum(getattr(result.counts, name) for result in results) for name in summed}
        return ApplyReport(
            entity=tables.entity,
            channel=tables.channel,
            from_position=batch.after,
            to_position=batch.up_to,
            events=batch.events,
            deliveries=committed.events,
            committed=committed.between,
            duplicates=len(batch.duplicates),
            read_back=len(self._planned.record_ids),
            texts=sum(file.rows for file in texts),
            suspects_opened=dict(Counter(suspect.reason for suspect in opened)),
            suspects_healed=healed,
            open_suspects=dict(sorted(Counter(suspect.reason for suspect in open_suspects).items())),
            key_ranges_written=len(added),
            bytes_written=sum(file.size for file in added),
            rows=tables.current_state.table.count(),
            version=tables.current_state.table.version,
            snapshot=tables.snapshot.number,
            seconds=time.monotonic() - started,
            schema_before=tables.schema_before,
            schema=tables.current_state.schema,
            has_more=batch.has_more,
            **counts,
        )

    def _other_channel(self) -> list[NewSuspect]:
        """Return the entry that says from where on the entity has its channel, where this batch brings it there. One
        that is applied again, by a rebuild too, is noted already."""
        taken, new = self._tables.taken, self._planned.snapshots
        first = taken.checkpoint().first
        begins = next((each for each in new if each.number == first and first > 1), None)
        if begins is None or (before := taken.channel_before()) is None:
            return []
        return [NewSuspect(ENTITY, Reason.OTHER_CHANNEL, begins.position, f"{before} fed it before")]

    def _checkpoint(self) -> Checkpoint:
        """Return the checkpoint of the tables after this application."""
        tables, planned = self._tables, self._planned
        before = tables.checkpoint
        batch = before.batch + 1
        after = replace(
            before,
            batch=batch,
            position=planned.batch.up_to,
            snapshot=max(tables.snapshot.number, before.snapshot),
            read_back=max(tables.taken.last_read_back(), before.read_back),
            suspected=planned.suspected or before.suspected,
            read_at=max(before.read_at, tables.taken.read_at()) if planned.org_reads else before.read_at,
            built_at=before.built_at or max(clock.now_ms(), tables.built_before + 1),
        )
        if planned.roll_back_to is None:
            return after
        return replace(after, rolled_back_in=batch, rolled_back_to=planned.roll_back_to)

    def _commit_current_state(self, results: Sequence[Applied], checkpoint: Checkpoint) -> list[NewFile]:
        table, planned = self._tables.current_state, self._planned
        added = [_new_file(file) for result in results for file in result.files]
        files = table.files()
        replaced = {path for result in results for path in result.replaced}
        everything = bool(planned.snapshots) or self._tables.from_scratch
        removed = list(files.values()) if everything else [files[path] for path in sorted(replaced)]
        run = {RUN_ID: self._run_id, "from_position": str(planned.batch.after)}
        counts = self._counts(results, everything=everything)
        notes = (
            {}
            if planned.roll_back_to is None
            else noting_roll_back(table.table, self._tables.history.table, checkpoint, clock.now_ms())
        )
        table.commit(added, removed, self._tables.channel, checkpoint, counts, run, notes)
        return added

    def _counts(self, results: Sequence[Applied], *, everything: bool) -> RowCounts | None:
        """Count the rows after this batch; None where they were not known before and not all are written."""
        after = RowCounts.sum(result.rows_after for result in results)
        if everything:
            return after
        present = noted_counts(self._tables.current_state.table)
        return present and present + after - RowCounts.sum(result.rows_before for result in results)

    def _quarantine(self, suspects: Sequence[NewSuspect]) -> None:
        """Keep the bodies that could not be decoded, with the reason."""
        tables = self._tables
        errors = {each.position: each.detail for each in suspects if each.reason is Reason.UNDECODABLE_PAYLOAD}
        if errors:
            rows = raw_events.payloads(tables.warehouse, tables.entity, tables.channel, sorted(errors))
            description = [{**row, "channel": tables.channel, "error": errors[row["position"]]} for row in rows]
            if tables.privacy.concerns(tables.entity):
                description = [
                    {**row, "payload": None} for row in description
                ]  # raw_events has it, and no other table may
            writer = f"{tables.channel}:{tables.entity}"
            quarantine(tables.warehouse, pa.Table.from_pylist(description, schema=QUARANTINE), writer)

    def _close_suspects(self) -> tuple[list[OpenSuspect], int]:
        """Heal the entries that the table no longer has: its rows, not this process's memory, say so. Those that are
        left, and how many were healed."""
        ledger, watermark = self._tables.ledger, self._tables.snapshot.position
        channel = self._tables.channel
        suspects = ledger.open_suspects()
        of_entity = [suspect for suspect in suspects if suspect.record_id == ENTITY]
        answered = [each for each in of_entity if not each.refuses_a_read and each.position_on(channel) <= watermark]
        vanished = [each for each in of_entity if each.reason == Reason.VANISHED]
        if vanished and not self._waits_to_be_accepted(suspects):
            answered += vanished
        positions = {ENTITY: watermark}
        of_records = [suspect for suspect in suspects if suspect.record_id != ENTITY]
        if of_records:
            free = self._tables.current_state.not_suspect([suspect.record_id for suspect in of_records])
            positions |= free
            # A row that an audit found to have drifted is not marked: only a reading ends that entry.
            answered += [
                suspect
                for suspect in of_records
                if free.get(suspect.record_id, -1) >= suspect.position_on(channel)
                and (suspect.reason not in UNMARKED or suspect.record_id in self._planned.record_ids)
            ]
        ledger.heal(answered, positions, clock.now_ms())
        healed = frozenset(answered)
        return [suspect for suspect in suspects if suspect not in healed], len(answered)

    def _waits_to_be_accepted(self, suspects: Sequence[OpenSuspect]) -> bool:
        """Return whether a snapshot, or records that were read back, still wait to be accepted."""
        taken = Snapshots.open(self._tables.warehouse, self._tables.entity)
        return (taken is not None and taken.refused() is not None) or any(suspect.not_believed for suspect in suspects)


def _new_file(file: WrittenKeyRange) -> NewFile:
    return NewFile(file.path, file.size, file.statistics)
