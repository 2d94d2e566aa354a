"""What a table is (place, columns, their lineage) is reported when it changes and once a day, and in between where.

Of an object with eighty columns they take 60 kB, and Dagster writes every event twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary

import dagster as dg

from sfcdc_assets.orchestration.table_metadata import COLUMNS, LINEAGE, SCHEMA, timestamp
from sfcdc_assets.runtime import clock

BUSY_SECONDS, CALM_SECONDS = 86_400.0, 600.0
"""How old a report of the same columns is at most while there are newer ones without: on a stream that goes on, and at
the end of a run, which may be the last for long. Younger than what is deleted of the event log."""
OF_THE_TABLE = (
    SCHEMA,
    COLUMNS,
    LINEAGE,
    "dagster/table_name",
    "dagster/storage_kind",
    "dagster/uri",
    "table",
    "location",
    "object",
    "object_kind",
)
"""What two materializations of a partition have in common, as long as nobody changes the object."""
VERSION, REPORTED_AT, REPORTED_IN = "columns_version", "columns_reported_at", "columns_reported_in"

_Known = Mapping[str, dg.MetadataValue]
_READ: WeakKeyDictionary[dg.DagsterInstance, dict[tuple[dg.AssetKey, str | None], _Known]] = WeakKeyDictionary()
"""What was last read of the event log, by instance and partition. Of a report that is stored and does for the next one
the log is not asked again: each question parses a large record."""


def with_new_columns(
    instance: dg.DagsterInstance,
    event: dg.AssetMaterialization,
    run_id: str | None = None,
    within_seconds: float = BUSY_SECONDS,
) -> dg.AssetMaterialization:
    """Return the next materialization of a partition: without what its table is if one of the last `within_seconds` has
    the same. `columns_reported_in` then leads to its run, if a run made it; `run_id` is the run that reports."""
    if SCHEMA not in event.metadata and COLUMNS not in event.metadata:
        return event
    return event.with_metadata(_metadata(instance, event, run_id, within_seconds))


def _metadata(
    instance: dg.DagsterInstance, event: dg.AssetMaterialization, run_id: str | None, within_seconds: float
) -> dict[str, dg.MetadataValue]:
    metadata = dict(event.metadata)
    columns = [dg.serialize_value(cast(Any, metadata[name])) for name in OF_THE_TABLE if name in metadata]
    version = hashlib.sha256("".join(columns).encode()).hexdigest()[:12]
    read, partition = _READ.setdefault(instance, {}), (event.asset_key, event.partition)
    known = read.get(partition, {})
    if not _does(known, version, within_seconds):
        known = read[partition] = _newest(instance, event.asset_key, event.partition)
    if _does(known, version, within_seconds):
        kept = {name: value for name, value in metadata.items() if name not in OF_THE_TABLE}
        where = {name: known[name] for name in (REPORTED_AT, REPORTED_IN) if name in known}
        return {**kept, VERSION: dg.MetadataValue.text(version), **where}
    by = {REPORTED_IN: dg.MetadataValue.dagster_run(run_id)} if run_id else {}
    return {**metadata, VERSION: dg.MetadataValue.text(version), REPORTED_AT: timestamp(clock.now_ms()), **by}


def _does(known: _Known, version: str, within_seconds: float) -> bool:
    """Return whether a report has these columns, or leads to one that has, and is young enough."""
    reported_at = known.get(REPORTED_AT)
    return (
        known.get(VERSION) == dg.MetadataValue.text(version)
        and isinstance(reported_at, dg.TimestampMetadataValue)
        and 0 <= clock.now_ms() / 1000 - reported_at.value < within_seconds
    )


def _newest(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None) -> _Known:
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
    for record in instance.fetch_materializations(wanted, limit=1).records:
        if record.asset_materialization is not None:
            metadata = record.asset_materialization.metadata
            return {name: metadata[name] for name in (VERSION, REPORTED_AT, REPORTED_IN) if name in metadata}
    return {}
