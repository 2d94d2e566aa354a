"""An entity's tables, ready for one application: what is in them, and the columns they have.

`OpenTables` is what there is; `evolve_tables` creates what is missing and gives each the columns of today.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.entities.open_tables import OpenTables
from sfcdc_assets.lake.tables import history, text_fields
from sfcdc_assets.lake.tables.appended_table import Appended
from sfcdc_assets.lake.tables.change_of_channel import OtherChannel
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.entity_checkpoint import RETYPED_AT, Checkpoint
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.run_context import RunContext
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.schema_evolution.layout import follow_layout, mark_retired
from sfcdc_assets.schema_evolution.reshape import fit
from sfcdc_assets.schema_evolution.table_columns import PrivacyChanged, privacy_conflicts, retired_columns
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema


class SnapshotMissing(SfcdcError):
    """Events cannot be applied to an entity whose rows before them were never read."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        super().__init__(
            f"{entity}: no complete snapshot. Its events wait in raw_events; launch the job `snapshot` for {entity}, "
            "or run `sfcdc sync`."
        )


@dataclass(frozen=True)
class EntityTables:
    """Handles on one snapshot of each table; every commit goes through the handle that was read."""

    warehouse: Warehouse
    entity: str
    channel: str
    raw_events: RawEvents
    schemas: Schemas
    taken: Snapshots
    snapshot: CompleteSnapshot
    """The newest complete one."""
    ledger: Ledger
    current_state: CurrentState
    texts: Appended
    history: Appended
    columns: tuple[Column, ...]
    privacy: Privacy
    schema_before: pa.Schema | None
    """Of `current_state`, before it was given these columns; None where there was no table."""

    @property
    def from_scratch(self) -> bool:
        """All layers are built again: one of them was removed or never was, or building them was interrupted."""
        return self.current_state.checkpoint(self.channel).snapshot == 0 or not self._are_built

    @property
    def checkpoint(self) -> Checkpoint:
        """What is in the tables; nothing where they are built again, but the number of the last batch."""
        found = self.current_state.checkpoint(self.channel)
        return Checkpoint(batch=found.batch) if self.from_scratch else found

    @property
    def built_before(self) -> int:
        """When the tables that there are were built from nothing; 0 where there were none."""
        return self.current_state.checkpoint(self.channel).built_at

    def settle(self) -> None:
        """Remove what a batch left in the tables that append and did not commit, or all where they are built again.

        Writers that opened the tables before are refused from then on, so that nothing of theirs is removed that they
        still count on. Raises `ConcurrentCommit`.
        """
        checkpoint, appended = self.checkpoint, (self.texts, self.history)
        if self.from_scratch:
            if self.current_state.table.version or any(each.table.version for each in appended):
                self.current_state.fence()
                for each in appended:
                    each.empty()
        elif any(each.has_leftovers(checkpoint) for each in appended):
            self.current_state.fence()
            for each in appended:
                each.clean(checkpoint)

    @property
    def _are_built(self) -> bool:
        return self.texts.is_built and self.history.is_built


def evolve_tables(
    run: RunContext, opened: OpenTables, raw_events: RawEvents, schemas: Schemas, channel: str
) -> EntityTables:
    """Give the entity's tables the columns that its fields have today (`layout`), and create those it lacks.

    The run's Spark is asked for only where a field changed its type and files are rewritten for it. Raises
    `SnapshotMissing`, `OtherChannel` and `PrivacyChanged` before anything has changed, and `ConcurrentCommit`.
    """
    warehouse, entity, taken, present = run.warehouse, opened.entity, opened.taken, opened.current_state
    if taken is None or taken.complete() is None:
        raise SnapshotMissing(entity)
    if not taken.has_watermark_on(channel):
        raise OtherChannel(entity, channel)
    conflicts = privacy_conflicts(schemas, entity, opened.schemas_with_columns, run.privacy)
    if conflicts:
        raise PrivacyChanged(entity, conflicts)
    before = present.schema if present else None
    columns = follow_layout(run, schemas, taken, opened.ledger, entity, channel)
    table = present or CurrentState.open_or_create(warehouse, entity, columns)
    versions = opened.history or history.open_or_create(warehouse, entity, columns)
    retired = retired_columns(schemas, entity, columns)
    typed_again = {RETYPED_AT: max(clock.now_ms(), table.checkpoint(channel).retyped_at + 1)}
    for each, noted, whole in (
        (table.table, typed_again, current_state_schema(columns)),
        (versions.table, {}, history_schema(columns)),
    ):
        each.refuse_change_feed()
        fit(each, columns, run, noted)
        each.add_columns([field for field in whole if field.name not in each.schema.names])
        mark_retired(each, retired)
    snapshot = taken.complete()
    assert snapshot is not None, entity
    return EntityTables(
        warehouse,
        entity,
        channel,
        raw_events,
        schemas,
        taken,
        snapshot,
        opened.ledger or Ledger.open_or_create(warehouse, entity),
        table,
        opened.texts or text_fields.open_or_create(warehouse, entity),
        versions,
        columns,
        run.privacy,
        before,
    )
