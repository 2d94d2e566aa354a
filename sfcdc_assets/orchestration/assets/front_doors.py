"""An asset for each entity, without partitions: what other people's assets depend on.

It is external, so nothing that is launched makes it: it is reported when a consistent cut has a batch of the entity
that was not reported yet. So whoever reacts to it (`eager`, `on_cron`, `on_missing`, a sensor) finds tables that are
committed and part of a cut, of this entity and of no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import dagster as dg

from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.lake.tables.current_state import noted_counts
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.assets import column_lineage
from sfcdc_assets.orchestration.assets.report_interval import Pace
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import Metadata, lag_seconds, table_metadata
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.schema_evolution.table_columns import newest_describe
from sfcdc_assets.settings.settings import Settings

EVERY_SECONDS = 300.0
"""The least time between two reports of an entity while a run goes on; the run's end reports what is left."""
LISTING_SECONDS = 5.0
"""How long definitions wait at most for a list of the warehouse's entities."""
WITHOUT_ASSET_TAG = "sfcdc/reload_for_asset_of"
"""Of a run: entities that have come since definitions loaded."""
WAY_TO_ASSETS = "the code location is loaded again (Deployment, Reload). Their tables are kept as all others."
_BATCH = "batch"
log = logging.getLogger(__name__)


def entity_names(settings: Settings) -> tuple[str, ...]:
    """Return the entities that have an asset of their own when definitions load, without asking the org: those that
    SFCDC_ENTITIES names, or those that have tables, and those that SFCDC_POLL names. A warehouse that does not answer
    in time is left out, with a warning."""
    if settings.entities:
        return _each_once(settings.entities)
    polled = [name for name in settings.poll if not any(sign in name for sign in "*?")]
    return _each_once([*polled, *_with_tables(settings.warehouse)])


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in order, those that are the same but for their case once, as the last of them writes it: people
    write an object's name in any case, and its tables have Salesforce's."""
    return tuple(sorted({name.lower(): name for name in names}.values()))


def _with_tables(root: str) -> tuple[str, ...]:
    found: list[tuple[str, ...]] = []
    failed: list[SfcdcError] = []

    def look() -> None:
        try:
            found.append(Warehouse(root).entities(current_state.LAYER))
        except SfcdcError as error:
            failed.append(error)

    looking = threading.Thread(target=look, name="entities of the warehouse", daemon=True)
    looking.start()
    looking.join(LISTING_SECONDS)
    if not found:
        why = str(failed[0]) if failed else f"it has not answered for {LISTING_SECONDS:.0f} s"
        log.warning(
            "%s: its entities could not be listed, so they have no assets of their own until definitions are loaded "
            "again (%s). All else works.",
            root,
            why,
        )
    return found[0] if found else ()


def front_door_specs(assets: OrgAssets, entities: Iterable[str]) -> list[dg.AssetSpec]:
    """Return the specs of the entities' own assets."""
    settings = assets.settings()
    return [
        dg.AssetSpec(
            assets.keys.of_entity(entity),
            deps=[assets.keys.consistent_cuts],
            description=f"{entity}: its tables `{current_state.name_of(entity)}` and `history/{entity}`. Reported when "
            "changes are committed and part of a consistent cut, at most once in five minutes while changes go on. The "
            f"sensors `{assets.name('poll_...')}` feed it; nothing has to be launched.",
            group_name=assets.group(),
            kinds=set(assets.kinds if assets.kinds is not None else ("salesforce", "deltalake")),
            owners=assets.owners,
            metadata=_links(settings, entity),
        )
        for entity in entities
    ]


def _links(settings: Settings, entity: str) -> dict[str, dg.MetadataValue]:
    links: dict[str, dg.MetadataValue] = {
        "dagster/table_name": dg.MetadataValue.text(current_state.name_of(entity)),
        "entity": dg.MetadataValue.text(entity),
    }
    if settings.instance_url is not None:
        links["records"] = dg.MetadataValue.url(f"{str(settings.instance_url).rstrip('/')}/lightning/o/{entity}/list")
    return links


@dataclass
class UnreportedDoors:
    """What cuts have brought of entities and is not reported: of each the newest cut that moved it."""

    assets: OrgAssets
    instance: dg.DagsterInstance
    pace: Pace = field(default_factory=Pace)
    _cuts: dict[str, Cut] = field(default_factory=dict)

    def cut(self, cut: Cut, before: Cut | None = None) -> None:
        """Note that a cut was reached, after `before`: of the entities that it moved, whichever run committed them.
        Without `before`: of all that it has."""
        lagging = {each.entity for each in cut.lagging}
        lagged = {each.entity for each in before.lagging} if before is not None else set()
        for entity in _entities_of(cut):
            name = current_state.name_of(entity)
            has_moved = before is None or entity in lagged or before.tables.get(name) != cut.tables[name]
            if has_moved and entity not in lagging:
                self._cuts[entity] = cut

    def take(self, warehouse: Warehouse, *, at_once: bool) -> list[dg.AssetMaterialization]:
        """Return what is due; `at_once`: all of it. A batch that was reported is not: upkeep moves tables too."""
        due = [entity for entity in self._cuts if at_once or self.pace.is_due(entity, EVERY_SECONDS)]
        doors, events = FrontDoors(self.assets, warehouse), []
        known = _reported(self.instance, [self.assets.keys.of_entity(entity) for entity in due]) if due else {}
        for entity in due:
            cut = self._cuts.pop(entity)
            version, batch = known.get(self.assets.keys.of_entity(entity), (None, None))
            event = doors.report(entity, cut) if version != cut.tables[current_state.name_of(entity)] else None
            if event is not None and event.metadata[_BATCH].value != batch:
                self.pace.reported(entity)
                events.append(event)
        return events


def _entities_of(cut: Cut) -> list[str]:
    layer = f"{current_state.LAYER}/"
    return [name.removeprefix(layer) for name in cut.tables if name.startswith(layer)]


def _reported(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]
) -> dict[dg.AssetKey, tuple[object | None, object | None]]:
    """Key -> the Delta version and the batch that were reported last."""
    found: dict[dg.AssetKey, tuple[object | None, object | None]] = {}
    for record in instance.get_asset_records(keys):
        event = record.asset_entry.last_materialization
        if event is not None and event.asset_materialization is not None:
            metadata = event.asset_materialization.metadata
            version, batch = metadata.get("delta_version"), metadata.get(_BATCH)
            found[record.asset_entry.asset_key] = (version and version.value, batch and batch.value)
    return found


class FrontDoors:
    """What is reported of entities with a cut: the table of each, its rows and columns, and as of when."""

    def __init__(self, assets: OrgAssets, warehouse: Warehouse) -> None:
        self._assets, self._warehouse = assets, warehouse

    @cached_property
    def _schemas(self) -> Schemas:
        return Schemas(self._warehouse)

    def report(self, entity: str, cut: Cut) -> dg.AssetMaterialization | None:
        """Return the report of an entity as it is in a cut. None, with a warning, where that cannot be read: neither
        the tick nor the run depends on it."""
        event = outcome_of(self._report, entity, cut)
        if isinstance(event, Exception):
            log.warning("%s: its asset is not reported with this cut: %s", entity, event)
            return None
        return event

    def _report(self, entity: str, cut: Cut) -> dg.AssetMaterialization | None:
        name, keys = current_state.name_of(entity), self._assets.keys
        table = Table.open(self._warehouse, name, cut.tables[name])
        if table is None:
            return None
        batch, counts, schema = Checkpoint.of(table, cut.channel).batch, noted_counts(table), table.schema
        described = newest_describe(self._schemas.of_entity(entity))
        metadata: Metadata = {
            "dagster/row_count": table.count(),
            **({"deleted_rows": counts.deleted, "suspect_rows": counts.suspects} if counts is not None else {}),
            **lag_seconds(cut.commit_timestamp, clock.now_ms()),
            "as_of": str(cut.commit_timestamp),
            "position": cut.position,
            "channel": cut.channel,
            _BATCH: batch,
            "delta_version": cut.tables[name],
            **({"object": described.label} if described is not None else {}),
            **table_metadata(
                self._warehouse.uri(name),
                name,
                schema,
                column_lineage.of_entity(keys, cut.channel, entity, schema),
                described,
            ),
        }
        tags = {"dagster/data_version": str(batch)}
        return dg.AssetMaterialization(keys.of_entity(entity), metadata=metadata, tags=tags)
