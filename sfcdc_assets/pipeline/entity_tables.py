"""An entity's tables, opened for one application: what they are, what is in them, and the columns they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake.current_state import REFETCH, SNAPSHOT, CurrentState
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.history import History
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.schemas import Schemas
from sfcdc_assets.lake.snapshots import CompleteSnapshot, Snapshots
from sfcdc_assets.lake.text_fields import TextFields
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.change_of_channel import OtherChannel
from sfcdc_assets.pipeline.columns import PrivacyChanged, conflicts_of_entity, retired_columns
from sfcdc_assets.pipeline.layout import fit, follow_layout, mark_retired


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
    texts: TextFields
    history: History
    columns: tuple[Column, ...]
    privacy: Privacy
    schema_before: pa.Schema | None
    """Of `current_state`, before it was given these columns; None where there was no table."""

    @classmethod
    def open(
        cls,
        warehouse: Warehouse,
        spark: SparkSession,
        privacy: Privacy,
        entity: str,
        channel: str,
        now_ms: Callable[[], int],
    ) -> EntityTables:
        """The newest state of each, with the columns of today (`layout`). Raises `SnapshotMissing`, `OtherChannel`,
        `PrivacyChanged`."""
        _taken(warehouse, entity, channel)
        conflicts = conflicts_of_entity(warehouse, Schemas(warehouse), entity, privacy)
        if conflicts:
            raise PrivacyChanged(entity, conflicts)
        columns = follow_layout(warehouse, lambda: spark, privacy, entity, channel, now_ms)
        taken, snapshot = _taken(warehouse, entity, channel)
        present = CurrentState.open(warehouse, entity)
        table = CurrentState.open_or_create(warehouse, entity, columns)
        versions = History.open_or_create(warehouse, entity, columns)
        schemas = Schemas(warehouse)
        retired = retired_columns(schemas, entity, columns)
        for each in (table.table, versions.table):
            fit(each, columns, lambda: spark, warehouse)
            mark_retired(each, retired)
        return cls(
            warehouse,
            entity,
            channel,
            RawEvents.open(warehouse),
            schemas,
            taken,
            snapshot,
            Ledger.open_or_create(warehouse, entity),
            table,
            TextFields.open_or_create(warehouse, entity),
            versions,
            columns,
            privacy,
            present.schema if present else None,
        )

    @property
    def built_from(self) -> int:
        """Number of the snapshot that every layer was last built from; 0 where a layer was removed or never was: all
        are made anew then, as one reading of a row gives them together."""
        return min(each.has(SNAPSHOT) for each in (self.current_state, self.texts, self.history))

    @property
    def anew(self) -> bool:
        """All layers are made anew."""
        return self.built_from == 0

    @property
    def applied(self) -> int:
        """Position up to which the channel's events are in the rows; 0 where they are made anew."""
        return 0 if self.anew else self.current_state.applied(self.channel) or 0

    @property
    def refetched(self) -> int:
        """Number of the last refetch in the rows."""
        return 0 if self.anew else self.current_state.has(REFETCH)


def _taken(warehouse: Warehouse, entity: str, channel: str) -> tuple[Snapshots, CompleteSnapshot]:
    taken = Snapshots.open(warehouse, entity)
    snapshot = taken.complete() if taken else None
    if taken is None or snapshot is None:
        raise SnapshotMissing(entity)
    if not taken.pinned_on(channel):
        raise OtherChannel(entity, channel)
    return taken, snapshot
