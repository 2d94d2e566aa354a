"""What is reported to Dagster of a run's steps: a log line and a materialization of each partition worked on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Protocol

import dagster as dg

from sfcdc_assets.assets.channels import channel_key
from sfcdc_assets.assets.keys import (
    CONSISTENT_CUTS_KEY,
    CURRENT_STATE_KEY,
    GAP_RECONCILIATION_KEY,
    HISTORY_KEY,
    RAW_EVENTS_KEY,
    SNAPSHOT_KEY,
    TABLE_KEYS,
    TEXT_FIELDS_KEY,
)
from sfcdc_assets.assets.layer_metadata import (
    changes_of,
    channel_materialization,
    consistent_cuts_metadata,
    current_state_metadata,
    gap_reconciliation_metadata,
    history_metadata,
    raw_events_metadata,
    text_fields_metadata,
)
from sfcdc_assets.assets.provenance import tags_of_root, tags_of_table
from sfcdc_assets.assets.tables_look import TablesLook, look_again, look_of_batch
from sfcdc_assets.lake import snapshots
from sfcdc_assets.lake.consistent_cuts import Cut
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.observation import BatchApplied, notify
from sfcdc_assets.outcome import outcome_of
from sfcdc_assets.pipeline.applying.apply_changes import ApplyReport
from sfcdc_assets.pipeline.applying.entity_tables import EntityTables
from sfcdc_assets.pipeline.catch_up import Applied, ApplyListener
from sfcdc_assets.pipeline.landing.land import LandingReport
from sfcdc_assets.pipeline.org_reads.take_snapshot import SnapshotReport
from sfcdc_assets.table_metadata import SAMPLE_ROWS, Metadata, table_metadata

Event = dg.AssetMaterialization


class Log(Protocol):
    """Where a step's messages go."""

    def info(self, message: str) -> None: ...
    def warning(self, message: str) -> None: ...


class RunReports(ApplyListener):
    """Gathers the events of a run; each step logs by its own log and takes what has come in it."""

    def __init__(self, instance: dg.DagsterInstance, warehouse: Warehouse, entities: Mapping[str, str]) -> None:
        self._instance = instance
        self._warehouse = warehouse
        self._entities = entities
        self._events: list[Event] = []
        self._looks: dict[str, TablesLook] = {}
        """Of entities that are committed and not reported yet."""
        self.deliveries = 0
        """Events that the org has sent to this run: 0 where a sensor landed them for it."""
        self.log: Log = _Silent()

    def take(self) -> list[Event]:
        """What has come since the last time."""
        events, self._events = self._events, []
        return events

    def drained(self, report: LandingReport) -> None:
        """A materialization of the channel, and of each entity that events came for."""
        channel = report.channel
        self.deliveries += report.deliveries
        self.log.info(f"{channel}: {report.count} events landed, position {report.position}")
        if report.lost_checkpoint:
            self.log.warning(f"{channel}: checkpoint lost, its entities are read again: {report.lost_checkpoint}")
        self._events.append(channel_materialization(self._warehouse, report))
        mine = [entity for entity, of in self._entities.items() if of == channel]
        self._events += raw_events_materializations(self._warehouse, report, mine)

    def committed(self, report: ApplyReport, tables: EntityTables) -> None:
        """What is to be reported of an entity's tables is looked at beside the commits of others, through handles that
        are open. A look that fails is made once more when the entity is reported: its commit stands."""
        look = outcome_of(look_of_batch, report, tables)
        if not isinstance(look, Exception):
            self._looks[report.entity] = look

    def brought_up_to_date(self, applied: Applied) -> None:
        """A materialization of each of the entity's tables."""
        report, read = applied.report, applied.read
        self.log.info(described(report))
        if read is not None and read.refused:
            self.log.warning(
                f"{report.entity}: {read.refused} of {read.asked} suspect records cannot be read back; "
                f"gap_reconciliation/{report.entity} says why"
            )
        if read is not None and read.error:
            self.log.warning(f"{report.entity}: reading back {read.asked} records failed: {read.error}")
        if changes := changes_of(report):
            self.log.info(f"{report.entity}: columns changed: {'; '.join(map(str, changes))}")
        used = {RAW_EVENTS_KEY: report.to_position, SNAPSHOT_KEY: report.snapshot}
        metadata = tables_metadata(self._warehouse, applied, self._look(applied))
        lag = metadata[CURRENT_STATE_KEY].get("lag_seconds")
        notify(BatchApplied(report.entity, report.inserted, report.updated, report.deleted, lag))
        tags = tags_of_table(self._instance, data_version(applied), report.entity, used)
        self._events += [
            dg.AssetMaterialization(key, partition=report.entity, metadata=metadata[key], tags=tags)
            for key in TABLE_KEYS
        ]

    def _look(self, applied: Applied) -> TablesLook:
        """What was looked at when the batch was committed, unless something came after it."""
        report = applied.report
        look = self._looks.pop(report.entity, None)
        if look is None or look.current_state.version != report.version or applied.read is not None:
            look = look_again(self._warehouse, report)
        return look

    def cut(self, cut: Cut) -> None:
        """A materialization of the cuts."""
        self.log.info(f"{cut.channel}: consistent cut at position {cut.position}, {len(cut.tables)} tables")
        self._events.append(cut_materialization(self._warehouse, cut))


class _Silent:
    def info(self, message: str) -> None:
        """Nobody listens."""

    warning = info


def tables_metadata(warehouse: Warehouse, applied: Applied, look: TablesLook) -> dict[dg.AssetKey, Metadata]:
    """What is reported of each of an entity's tables."""
    report = applied.report
    return {
        TEXT_FIELDS_KEY: text_fields_metadata(warehouse, report, look.text_fields),
        GAP_RECONCILIATION_KEY: gap_reconciliation_metadata(warehouse, applied, look.gap_reconciliation),
        CURRENT_STATE_KEY: current_state_metadata(warehouse, applied, look.current_state, look.described),
        HISTORY_KEY: history_metadata(warehouse, report, look.history, look.described),
    }


def data_version(applied: Applied) -> str:
    """The version of the batch's commit point identifies the content of all tables that are committed with it."""
    return str(applied.report.version)


def raw_events_materializations(
    warehouse: Warehouse, report: LandingReport, mine: Collection[str]
) -> list[dg.AssetMaterialization]:
    """Of the entities that the channel feeds: an event that landed from two channels is reported once."""
    touched = [entity for entity in report.events if entity in mine]
    return [
        dg.AssetMaterialization(
            RAW_EVENTS_KEY,
            partition=entity,
            metadata=metadata,
            tags=tags_of_root(version, [channel_key(report.channel)]),
        )
        for entity, (metadata, version) in raw_events_metadata(warehouse, report, touched).items()
    ]


def snapshot_materialization(warehouse: Warehouse, report: SnapshotReport) -> dg.AssetMaterialization:
    """An entity was read whole."""
    metadata, tags = snapshot_metadata(warehouse, report), tags_of_root(str(report.number))
    return dg.AssetMaterialization(SNAPSHOT_KEY, partition=report.entity, metadata=metadata, tags=tags)


def snapshot_metadata(warehouse: Warehouse, report: SnapshotReport) -> Metadata:
    """How the snapshot was read, its watermark, and a sample of its rows."""
    name = snapshots.name_of(report.entity)
    table = Snapshots.open(warehouse, report.entity)
    assert table is not None
    shown = ("channel", "number", "position", "pages", "resumed")
    description = {key: value for key, value in asdict(report).items() if key in shown}
    return {
        "rows": report.rows,
        "api_requests": report.calls,
        "seconds": round(report.seconds, 3),
        **description,
        "user_sees": report.sight.value,
        **table_metadata(warehouse.uri(name), name, report.rows, table.table.schema, table.sample(SAMPLE_ROWS)),
    }


def cut_materialization(warehouse: Warehouse, cut: Cut) -> dg.AssetMaterialization:
    """All tables of a channel stood at one position."""
    return dg.AssetMaterialization(CONSISTENT_CUTS_KEY, metadata=consistent_cuts_metadata(warehouse, cut))


def described(report: ApplyReport) -> str:
    """A batch in one line."""
    doubts = ", ".join(f"{count} {reason}" for reason, count in report.doubts_opened.items())
    return (
        f"{report.entity}: events {report.from_position + 1} to {report.to_position} of {report.channel} applied: "
        f"{report.inserted} inserted, {report.updated} updated, {report.deleted} deleted, "
        f"{'suspect ' + doubts if doubts else 'none suspect'}, {report.waiting} blocked, "
        f"{report.doubts_healed} healed; "
        f"{report.rows} rows, {report.key_ranges_written} key-range files written in {report.seconds:.1f} s"
    )
