"""What is reported to Dagster of a run's steps: a log line and a materialization of each partition worked on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

import dagster as dg

from sfcdc_assets.apply.apply_changes import ApplyReport
from sfcdc_assets.apply.catch_up import Applied, ApplyListener
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets.column_reports import BUSY_SECONDS, CALM_SECONDS, with_new_columns
from sfcdc_assets.orchestration.assets.front_doors import WAY_TO_ASSETS, WITHOUT_ASSET_TAG, UnreportedDoors
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.orchestration.assets.layer_metadata import (
    changes_of,
    channel_materialization,
)
from sfcdc_assets.orchestration.assets.materializations import (
    cut_materialization,
    data_version,
    raw_events_materializations,
    tables_metadata,
    tags_of_table,
)
from sfcdc_assets.orchestration.assets.report_interval import Pace
from sfcdc_assets.orchestration.assets.tables_metadata import TablesLook, look_again, look_of_batch
from sfcdc_assets.orchestration.assets.unreported_batches import HeldBatches
from sfcdc_assets.orchestration.assets.unreported_landings import HeldLandings
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import counted
from sfcdc_assets.runtime.progress import BatchApplied, notify
from sfcdc_assets.settings.channel_kinds import is_polled

Event = dg.AssetMaterialization


class Log(Protocol):
    """Where a step's messages go."""

    def info(self, message: str) -> None:
        """Log a message."""

    def warning(self, message: str) -> None:
        """Log a warning."""


class RunReports(ApplyListener):
    """Gathers what a run reports; each step logs by its own log and takes what has come in it: all of it, or in a run
    that goes on what is due (`Pace`). What waits is reported in sum."""

    def __init__(
        self,
        assets: OrgAssets,
        instance: dg.DagsterInstance,
        warehouse: Warehouse,
        entities: Mapping[str, str],
        run_id: str | None = None,
        *,
        with_columns: bool = False,
        without_asset: str | None = None,
    ) -> None:
        """`with_columns`: whoever launched the run looks at its reports, which have the tables' columns whatever was
        reported before. `without_asset`: which entities have come since definitions loaded."""
        self._assets = assets
        self._instance = instance
        self._warehouse = warehouse
        self._entities = entities
        self._run_id = run_id
        self._with_columns = with_columns
        self._without_asset = without_asset
        self._within_seconds = CALM_SECONDS
        self._pace = Pace()
        self._doors = UnreportedDoors(assets, instance)
        self._landed: dict[str, HeldLandings] = {}
        self._batches: dict[str, HeldBatches] = {}
        self._left_out: dict[str, tuple[HeldBatches, list[dg.AssetKey]]] = {}
        """Of entities that were reported: the tables that were not, because their batches left them as they were."""
        self._cuts: dict[str, Cut] = {}
        self._looks: dict[str, TablesLook] = {}
        """Of entities that are committed and not reported yet."""
        self.deliveries = 0
        """Events that the org has sent to this run: 0 where a sensor landed them for it."""
        self.log: Log = _Silent()

    @classmethod
    def of_run(
        cls,
        assets: OrgAssets,
        context: dg.OpExecutionContext | dg.AssetExecutionContext,
        run: OrgRunContext,
        entities: Mapping[str, str],
        *,
        with_columns: bool,
    ) -> RunReports:
        """Return those of a run of Dagster's."""
        return cls(
            assets,
            context.instance,
            run.warehouse,
            entities,
            run.run_id,
            with_columns=with_columns,
            without_asset=context.run.tags.get(WITHOUT_ASSET_TAG),
        )

    def take(self, *, is_calm: bool = True) -> list[Event]:
        """All that has come since the last time, as one report of each partition. `is_calm`: it may be long until the
        next one, so that what the tables are is repeated sooner, and tables are reported that stayed as they were."""
        if self._without_asset is not None:
            self.log.warning(f"Without an asset of their own: {self._without_asset}, before {WAY_TO_ASSETS}")
            self._without_asset = None
        self._within_seconds = CALM_SECONDS if is_calm else BUSY_SECONDS
        return self._take(at_once=True, of_all=is_calm)

    def take_due(self) -> list[Event]:
        """Return what is due by its `Pace`. Of a table that a batch left as it was nothing is due."""
        self._within_seconds = BUSY_SECONDS
        return self._take(at_once=False, of_all=False)

    def drained(self, report: LandingReport) -> None:
        """Add a materialization of the channel, and of each entity that events came for."""
        channel = report.channel
        self.deliveries += report.deliveries
        if report.lost_checkpoint:
            self.log.warning(f"{channel}: checkpoint lost, its entities are read again: {report.lost_checkpoint}")
        self._landed.setdefault(channel, HeldLandings(quiet_seconds=inf)).add(report)

    def committed(self, report: ApplyReport, tables: EntityTables) -> None:
        """Look at what is to be reported of an entity's tables beside the commits of others, through handles that are
        open. A look that fails is made once more when the entity is reported: its commit stands."""
        look = outcome_of(look_of_batch, report, tables, self._assets.settings().sample_rows)
        if not isinstance(look, Exception):
            self._looks[report.entity] = look

    def brought_up_to_date(self, applied: Applied) -> None:
        """Add a materialization of each of the entity's tables."""
        report, read = applied.report, applied.read
        if read is not None and read.refused:
            self.log.warning(
                f"{report.entity}: {read.refused} of {read.asked} suspect records cannot be read back; "
                f"gap_reconciliation/{report.entity} says why"
            )
        if read is not None and read.error:
            self.log.warning(f"{report.entity}: reading back {counted(read.asked, 'record')} failed: {read.error}")
        if changes := changes_of(report):
            self.log.info(f"{report.entity}: columns changed: {'; '.join(map(str, changes))}")
        batch = HeldBatches.of(applied)
        kinds = (report.inserted, report.updated, report.deleted)
        notify(BatchApplied(report.entity, *kinds, batch.lag, report.suspects_healed))
        held = self._batches.get(report.entity)
        self._batches[report.entity] = batch if held is None else held.and_then(batch)

    def cut(self, cut: Cut, before: Cut | None) -> None:
        """Add a materialization of the cuts: the newest stands for those that were not reported."""
        self._cuts[cut.channel] = cut
        self._doors.cut(cut, before)

    def _take(self, *, at_once: bool, of_all: bool) -> list[Event]:
        events: list[Event] = []
        for channel, landed in self._landed.items():
            events += self._of_landings(channel, landed, at_once=at_once)
        for entity in [entity for entity in self._batches if at_once or self._pace.is_due(entity)]:
            held = self._batches.pop(entity)
            self.log.info(described(held.applied.report))
            keys = [
                key
                for key in self._assets.keys.of_tables
                if of_all or has_changed(self._assets.keys, key, held.applied)
            ]
            events += self._of_batches(held, keys)
            self._left_out[entity] = (held, [key for key in self._assets.keys.of_tables if key not in keys])
            self._pace.reported(entity)
        if of_all:
            for held, keys in self._left_out.values():
                events += self._of_batches(held, keys) if keys else []
            self._left_out.clear()
        for channel in [channel for channel in self._cuts if at_once or self._pace.is_due(channel)]:
            cut = self._cuts.pop(channel)
            self.log.info(f"{channel}: consistent cut at position {cut.position}, {counted(len(cut.tables), 'table')}")
            events.append(self._with_new_columns(cut_materialization(self._assets.keys, self._warehouse, cut)))
            self._pace.reported(channel)
        return events + [self._with_new_columns(door) for door in self._doors.take(self._warehouse, at_once=at_once)]

    def _of_landings(self, channel: str, landed: HeldLandings, *, at_once: bool) -> list[Event]:
        events: list[Event] = []
        taken = landed.take_channel(at_once=at_once)
        if taken is not None:
            self.log.info(f"{channel}: {counted(taken.count, 'event')} landed, position {taken.position}")
            events.append(channel_materialization(self._assets, self._warehouse, taken))
        mine = [entity for entity, of in self._entities.items() if of == channel]
        found = landed.take_entities(at_once=at_once)
        if found is not None:
            events += map(
                self._with_new_columns,
                raw_events_materializations(self._assets, self._warehouse, found, mine),
            )
        return events

    def _of_batches(self, held: HeldBatches, keys: Sequence[dg.AssetKey]) -> list[Event]:
        applied, report = held.applied, held.applied.report
        of = self._assets.keys
        used = {of.raw_events: report.to_position, of.snapshot: report.snapshot}
        metadata = tables_metadata(of, self._warehouse, held, self._look(applied))
        tags = tags_of_table(self._instance, data_version(applied), report.entity, used)
        return [
            self._with_new_columns(
                dg.AssetMaterialization(key, partition=report.entity, metadata=metadata[key], tags=tags)
            )
            for key in keys
        ]

    def _with_new_columns(self, event: Event) -> Event:
        if self._with_columns:
            return event
        return with_new_columns(self._instance, event, self._run_id, self._within_seconds)

    def _look(self, applied: Applied) -> TablesLook:
        """Return what was looked at when the batch was committed, unless something came after it."""
        report = applied.report
        look = self._looks.pop(report.entity, None)
        if look is None or look.current_state.version != report.version or applied.read is not None:
            look = look_again(self._warehouse, report, self._assets.settings().sample_rows)
        return look


class _Silent:
    def info(self, message: str) -> None:
        """Do nothing: nobody listens."""

    warning = info


def has_changed(keys: AssetKeys, key: dg.AssetKey, applied: Applied) -> bool:
    """Return whether what a person sees of an entity's table is another than before these batches: most add no large
    text and have no entries, and of a table that stays as it is the next report can wait for the run's end. The first
    batch makes all of them: the graph would show them as missing for as long as the run goes on."""
    report = applied.report
    if report.schema_before is None:
        return True
    if key == keys.text_fields:
        return report.texts > 0
    if key == keys.gap_reconciliation:
        return bool(report.suspects_opened or report.suspects_healed or report.open_suspects or applied.read)
    return True


def described(report: ApplyReport) -> str:
    """Describe a batch in one line."""
    suspects = ", ".join(f"{count} {reason}" for reason, count in report.suspects_opened.items())
    has_events = report.from_position < report.to_position and not is_polled(report.channel)
    what = f"events {report.from_position + 1} to" if has_events else "what was read, at position"
    return (
        f"{report.entity}: {what} {report.to_position} of {report.channel} applied: "
        f"{report.inserted} inserted, {report.updated} updated, {report.deleted} deleted, "
        f"{'suspect ' + suspects if suspects else 'none suspect'}, {report.waiting} blocked, "
        f"{report.suspects_healed} healed; "
        f"{counted(report.rows, 'row')}, "
        f"{counted(report.key_ranges_written, 'key-range file')} written in {report.seconds:.1f} s"
    )
