"""Samples of rows in Dagster's event log, deleted from events that stay.

A materialization keeps what it was reported with, and the newest of each partition is kept for ever: so rows that were
shown while SFCDC_SAMPLE_ROWS was set are there until somebody deletes them. Everything else of the event stays, and
with it what Dagster knows of the partition.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetKeyTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage

from sfcdc_assets.orchestration.jobs.event_log import AT_ONCE, OtherEventLog, Ours
from sfcdc_assets.orchestration.table_metadata import SAMPLE

_ENTRIES = "metadata_entries"
_BUSY_SECONDS = 60
_EVENTS, _ASSETS = SqlEventLogStorageTable.c, AssetKeyTable.c


def forget_samples_of(instance: dg.DagsterInstance, ours: Ours) -> int:
    """Delete the samples from the events of our assets, each in its place; returns from how many. May be stopped and
    called again. Raises `OtherEventLog`."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise OtherEventLog(type(storage).__name__)
    with storage.index_connection() as connection:
        count = _rewrite(connection, _EVENTS.id, _EVENTS.event, ours.keys(_EVENTS.asset_key))
        _rewrite(connection, _ASSETS.id, _ASSETS.last_materialization, ours.keys(_ASSETS.asset_key))
    if isinstance(
        storage, SqliteEventLogStorage
    ):  # it keeps them a second time, in a file for each run and one for none
        for run_id in {RUNLESS_RUN_ID, *storage.get_all_run_ids()}:
            with storage.run_connection(run_id) as connection:
                found = _rewrite(connection, _EVENTS.id, _EVENTS.event, ours.keys(_EVENTS.asset_key))
            if found:
                _shrink(storage.path_for_shard(run_id))
        if count:
            _shrink(storage.path_for_shard(INDEX_SHARD_NAME))
    return count


def _rewrite(
    connection: sa.Connection,
    number: sa.ColumnElement[int],
    text: sa.ColumnElement[str],
    is_ours: sa.ColumnElement[bool],
) -> int:
    """Rewrite the rows of a table whose text has samples, without them; how many there were."""
    table, last, count = text.table, -1, 0
    while True:
        wanted = sa.select(number, text).where(is_ours, text.contains(f'"{SAMPLE}"'), number > last)
        rows = connection.execute(wanted.order_by(number).limit(AT_ONCE)).fetchall()
        for last, written in rows:
            event = json.loads(written)
            if _drop_samples(event):
                connection.execute(sa.update(table).where(number == last).values({text.name: json.dumps(event)}))
                count += 1
        if len(rows) < AT_ONCE:
            return count


def _drop_samples(event: Any) -> bool:
    """Return whether there were any. Events are JSON, nested as their classes are."""
    if isinstance(event, list):
        return sum(map(_drop_samples, event)) > 0
    if not isinstance(event, dict):
        return False
    entries = event.get(_ENTRIES)
    kept = [each for each in entries if each.get("label") != SAMPLE] if isinstance(entries, list) else entries
    found = kept != entries
    if found:
        event[_ENTRIES] = kept
    return sum(map(_drop_samples, event.values())) > 0 or found


def _shrink(path: str) -> None:
    """Overwrite what SQLite only marks as free, and what its journal still has."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
