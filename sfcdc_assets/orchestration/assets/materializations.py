"""Materializations of the tables: what each says of its partition, with its data version and those of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    DEFAULT_DATA_VERSION,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)

from sfcdc_assets.apply.catch_up import Applied
from sfcdc_assets.lake.tables import snapshots
from sfcdc_assets.lake.tables.consistent_cuts import Cut
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.orchestration.assets.keys import AssetKeys
from sfcdc_assets.orchestration.assets.layer_metadata import (
    consistent_cuts_metadata,
    current_state_metadata,
    gap_reconciliation_metadata,
    history_metadata,
    raw_events_metadata,
    text_fields_metadata,
)
from sfcdc_assets.orchestration.assets.specs import CODE_VERSION
from sfcdc_assets.orchestration.assets.tables_metadata import TablesLook
from sfcdc_assets.orchestration.assets.unreported_batches import HeldBatches
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import Metadata, partition_metadata
from sfcdc_assets.org_reads.take_snapshot import SnapshotReport

LOOKED_BACK = 20
"""How many materializations of an input are looked at for the one that was used."""


def tags_of_root(version: str, inputs: Sequence[dg.AssetKey] = ()) -> dict[str, str]:
    """Tags of what is read from outside; `inputs`: external assets it stands below."""
    return _tags(version, dict.fromkeys(inputs, (DEFAULT_DATA_VERSION.value, NULL_EVENT_POINTER)))


def tags_of_table(
    instance: dg.DagsterInstance, version: str, entity: str, used: Mapping[dg.AssetKey, int]
) -> dict[str, str]:
    """Tags of a partition that was computed from the same partition of others; `used`: up to which of their versions,
    which are numbers."""
    return _tags(version, {key: _input(instance, key, entity, at_most) for key, at_most in used.items()})


def _tags(version: str, inputs: Mapping[dg.AssetKey, tuple[str, str]]) -> dict[str, str]:
    tags = {
        CODE_VERSION_TAG: CODE_VERSION,
        DATA_VERSION_TAG: version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    for key, (input_version, pointer) in inputs.items():
        tags[get_input_data_version_tag(key)] = input_version
        tags[get_input_event_pointer_tag(key)] = pointer
    return tags


def _input(instance: dg.DagsterInstance, key: dg.AssetKey, entity: str, at_most: int) -> tuple[str, str]:
    """Version and storage id of the newest materialization that is not beyond what was used: nearly always the newest,
    and each one read is a large record."""
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[entity])
    for limit in (1, LOOKED_BACK):
        records = instance.fetch_materializations(wanted, limit=limit).records
        for record in records:
            newest = record.asset_materialization
            found = (newest.tags or {}).get(DATA_VERSION_TAG) if newest else None
            if found is not None and found.isdigit() and int(found) <= at_most:
                return found, str(record.storage_id)
        if len(records) < limit:
            break
    return DEFAULT_DATA_VERSION.value, NULL_EVENT_POINTER


def tables_metadata(
    keys: AssetKeys, warehouse: Warehouse, held: HeldBatches, look: TablesLook
) -> dict[dg.AssetKey, Metadata]:
    """Return what is reported of each of an entity's tables."""
    applied, report = held.applied, held.applied.report
    return {
        keys.text_fields: text_fields_metadata(keys, warehouse, report, look.text_fields),
        keys.gap_reconciliation: gap_reconciliation_metadata(keys, warehouse, applied, look.gap_reconciliation),
        keys.current_state: current_state_metadata(keys, warehouse, held, look.current_state, look.described),
        keys.history: history_metadata(keys, warehouse, report, look.history, look.described),
    }


def data_version(applied: Applied) -> str:
    """Return the version of the batch's commit point, which identifies the content of all tables that are committed
    with it."""
    return str(applied.report.version)


def raw_events_materializations(
    assets: OrgAssets,
    warehouse: Warehouse,
    report: LandingReport,
    mine: Collection[str],
) -> list[dg.AssetMaterialization]:
    """Return the materializations of the entities that the channel feeds: an event that landed from two channels is
    reported once."""
    touched = [entity for entity in report.events if entity in mine]
    return [
        dg.AssetMaterialization(
            assets.keys.raw_events,
            partition=entity,
            metadata=metadata,
            tags=tags_of_root(version, [assets.keys.of_channel(report.channel)]),
        )
        for entity, (metadata, version) in raw_events_metadata(assets, warehouse, report, touched).items()
    ]


def snapshot_materialization(
    assets: OrgAssets, warehouse: Warehouse, report: SnapshotReport
) -> dg.AssetMaterialization:
    """Return the materialization of an entity that was read whole."""
    metadata, tags = snapshot_metadata(assets, warehouse, report), tags_of_root(str(report.number))
    return dg.AssetMaterialization(assets.keys.snapshot, partition=report.entity, metadata=metadata, tags=tags)


def snapshot_metadata(assets: OrgAssets, warehouse: Warehouse, report: SnapshotReport) -> Metadata:
    """Return how the snapshot was read, its watermark, and a sample of its rows."""
    name = snapshots.name_of(report.entity)
    table = Snapshots.open(warehouse, report.entity)
    assert table is not None
    shown = ("channel", "number", "position", "pages", "resumed", "carried_from")
    description = {key: value for key, value in asdict(report).items() if key in shown and value is not None}
    return {
        "rows": report.rows,
        "api_requests": report.calls,
        "seconds": round(report.seconds, 3),
        **description,
        "user_sees": report.sight.value,
        **partition_metadata(
            warehouse.uri(name), name, report.rows, table.table.schema, table.sample(assets.settings().sample_rows)
        ),
    }


def cut_materialization(keys: AssetKeys, warehouse: Warehouse, cut: Cut) -> dg.AssetMaterialization:
    """All tables of a channel stood at one position."""
    return dg.AssetMaterialization(keys.consistent_cuts, metadata=consistent_cuts_metadata(warehouse, cut))
