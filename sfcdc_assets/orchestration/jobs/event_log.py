"""Dagster's runs and events that are past their retention.

Dagster purges ticks by itself (dagster.yaml, `retention`); runs and events it keeps until somebody deletes them, and a
materialization takes kilobytes, of a wide object a megabyte. To delete a run deletes its events too, and a partition
whose newest materialization is gone counts as missing. So what a page shows as the latest is kept, with its run,
however old it is: of each partition the newest event of each kind, and of each check the newest evaluation.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import sqlalchemy as sa
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage

from sfcdc_assets.runtime.errors import SfcdcError

AT_ONCE = 1_000
"""Events deleted in one transaction: others write to the log meanwhile."""
MOST_RUNS = 20_000
"""Runs deleted in one night; the next one goes on."""

_EVENTS, _CHECKS, _TAGS = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c, AssetEventTagsTable.c


class OtherEventLog(SfcdcError):
    """The instance keeps its events in a way that this module does not know."""

    def __init__(self, storage: str) -> None:
        super().__init__(
            f"Dagster keeps its event log in a {storage}, from which old events cannot be deleted here. Use its own "
            "retention, and switch the schedule forget_runs_every_night off."
        )


@dataclass(frozen=True)
class Ours:
    """What of an instance belongs to one code location: others have runs and events in it too."""

    prefix: tuple[str, ...]
    """Of the keys of its assets, which have one part more."""
    jobs: frozenset[str]
    """Their names, which begin as its keys do."""

    def has(self, run: dg.DagsterRun) -> bool:
        """Return whether a run is one of its jobs', or of its assets alone."""
        if run.asset_selection:
            return all(tuple(key.path[:-1]) == self.prefix for key in run.asset_selection)
        return run.job_name in self.jobs

    def keys(self, column: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """Return whether a column names one of its assets: the key's parts as a JSON list."""
        begins = json.dumps(list(self.prefix))[:-1] + ', "'
        return sa.and_(column.startswith(begins, autoescape=True), column.not_like(_escaped(begins) + '%", "%', "/"))


def _escaped(text: str) -> str:
    return text.replace("/", "//").replace("%", "/%").replace("_", "/_")


@dataclass(frozen=True)
class Forgotten:
    """What was deleted, and how many runs are kept although they are old: they have a partition's latest event."""

    runs: int
    events: int
    kept: int


def forget(instance: dg.DagsterInstance, before: datetime, ours: Ours) -> Forgotten:
    """Delete our finished runs that were begun before this time (UTC), with their events and logs, and events of that
    age without a run, as our sensors report them. Raises `OtherEventLog`."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        raise OtherEventLog(type(storage).__name__)
    run_ids = _old_runs(instance, before, ours)
    kept = set(run_ids) & _needed_runs(storage)
    for run_id in run_ids:
        if run_id not in kept:
            _forget_run(instance, storage, run_id)
    return Forgotten(len(run_ids) - len(kept), _forget_events(storage, before, ours), len(kept))


def _old_runs(instance: dg.DagsterInstance, before: datetime, ours: Ours) -> list[str]:
    old = dg.RunsFilter(statuses=list(FINISHED_STATUSES), created_before=before)
    found: list[str] = []
    cursor: str | None = None
    while len(found) < MOST_RUNS:
        runs = instance.get_runs(old, cursor=cursor, limit=AT_ONCE)
        if not runs:
            break
        found += [run.run_id for run in runs if ours.has(run)]
        cursor = runs[-1].run_id
    return found


def _newest_events() -> sa.Select[tuple[int]]:
    of_asset = sa.select(sa.func.max(_EVENTS.id)).where(_EVENTS.asset_key.is_not(None))
    return of_asset.group_by(_EVENTS.asset_key, _EVENTS.partition, _EVENTS.dagster_event_type)


def _newest_checks() -> sa.Select[tuple[int]]:
    return sa.select(sa.func.max(_CHECKS.id)).group_by(_CHECKS.asset_key, _CHECKS.check_name, _CHECKS.partition)


def _needed_runs(storage: SqlEventLogStorage) -> set[str]:
    with storage.index_connection() as connection:
        events = connection.execute(sa.select(_EVENTS.run_id).where(_EVENTS.id.in_(_newest_events()))).fetchall()
        checks = connection.execute(sa.select(_CHECKS.run_id).where(_CHECKS.id.in_(_newest_checks()))).fetchall()
    return {run_id for (run_id,) in (*events, *checks)}


def _forget_run(instance: dg.DagsterInstance, storage: SqlEventLogStorage, run_id: str) -> None:
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    if isinstance(storage, SqliteEventLogStorage):  # a file for each run, of which it only empties the table
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(storage.path_for_shard(run_id) + suffix).unlink()


def _forget_events(storage: SqlEventLogStorage, before: datetime, ours: Ours) -> int:
    """Return those without a run; returns how many."""
    naive = before.astimezone(UTC).replace(tzinfo=None)  # as the columns have it
    is_old = sa.and_(_EVENTS.run_id == RUNLESS_RUN_ID, _EVENTS.timestamp < naive, ours.keys(_EVENTS.asset_key))
    count = 0
    while True:
        with storage.index_connection() as connection:
            wanted = sa.select(_EVENTS.id).where(is_old, _EVENTS.id.not_in(_newest_events())).limit(AT_ONCE)
            found = [event_id for (event_id,) in connection.execute(wanted).fetchall()]
            if not found:
                break
            connection.execute(sa.delete(AssetEventTagsTable).where(_TAGS.event_id.in_(found)))
            connection.execute(sa.delete(SqlEventLogStorageTable).where(_EVENTS.id.in_(found)))
        count += len(found)
    with storage.index_connection() as connection:
        is_superseded = sa.and_(_CHECKS.create_timestamp < naive, _CHECKS.id.not_in(_newest_checks()))
        old_checks = sa.and_(is_superseded, ours.keys(_CHECKS.asset_key))
        connection.execute(sa.delete(AssetCheckExecutionsTable).where(old_checks))
    if isinstance(storage, SqliteEventLogStorage):  # it keeps them a second time, as those of a run without an id
        with storage.run_connection(RUNLESS_RUN_ID) as connection:
            connection.execute(sa.delete(SqlEventLogStorageTable).where(is_old))
    return count
