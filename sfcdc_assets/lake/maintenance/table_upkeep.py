"""The upkeep of one table: what nobody needs is deleted, small files are packed, and its log is kept short.

Nothing of what is true changes, and it may be stopped at any moment. Others may be at work: where they were first, the
table is left as it is until the next time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.delta.table_commits import KEPT_HOURS
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.maintenance.maintained_tables import Maintained
from sfcdc_assets.lake.maintenance.pack import OFTEN_TIMES_LARGEST, TIMES_LARGEST, pack
from sfcdc_assets.lake.maintenance.separate import separate
from sfcdc_assets.lake.maintenance.table_done import TableDone, after_step
from sfcdc_assets.lake.maintenance.version_vacuum import YOUNG_SECONDS, clean_log_but_for, vacuum_but_for
from sfcdc_assets.lake.tables import consistent_cuts, current_state, earlier_formula_values, formula_values, snapshots
from sfcdc_assets.lake.tables.consistent_cuts import prune_cuts, pruned_at, versions_in_cuts
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.cut_retention import GRACE, CutRetention
from sfcdc_assets.lake.tables.roll_backs import versions_before_roll_backs
from sfcdc_assets.lake.warehouse import Warehouse

TOMBSTONE_HOURS = 6
"""How long checkpoints of tables that cuts name say that a file was replaced: on a busy table 35,000 files a day, which
every checkpoint repeats. A vacuum of another client goes by it."""
SPARE_HOURS = 24
"""Other clients keep the logs of these tables for so much longer than the cuts, by the tables' properties."""


LOG_HOURS = 2
"""How long the log of a table is kept that no cut names. Each commit lists the log's folder twice, and that takes the
longer the more commits there are (on a local disk 0.8 ms for 1,000), and Delta would keep those of 30 days. Nothing is
shown by commits alone, and no writer takes as long as this between its reading and its commit."""


READ_SECONDS = 3_600.0
"""How long a file of such a table stays after it was replaced: `raw_events` gets some 3,600 an hour on a busy channel,
which packing replaces. A task of Spark that finds one gone fails, and the next run plans without it."""


@dataclass(frozen=True)
class Retention:
    """For how many days cuts can be opened and payloads are kept (None: for ever), for how many hours the logs of
    tables that no cut names, and for how many hours one cut an hour, one a minute, and every cut; the files and the
    logs that a cut needs are kept as long as the cut."""

    cut_days: int
    payload_days: int | None = None
    log_hours: int = LOG_HOURS
    hour_cut_hours: float = 24.0
    minute_cut_hours: float = 2.0
    batch_cut_hours: float = 1.0

    @property
    def of_cuts(self) -> CutRetention:
        """Which cuts are kept."""
        return CutRetention(self.cut_days, self.hour_cut_hours, self.minute_cut_hours, self.batch_cut_hours)


class KeptCuts:
    """The cuts of one maintenance, and the versions that they keep. What is forgotten now is deleted by the next one,
    `GRACE` later at the earliest."""

    def __init__(self, warehouse: Warehouse, retention: CutRetention, now: datetime) -> None:
        self._warehouse, self._retention, self._now = warehouse, retention, now
        self.began = time.time()
        """By the clock of the files (epoch seconds)."""

    @cached_property
    def may_go(self) -> bool:
        """Whether whoever has a cut open that was forgotten the last time had `GRACE` to read it."""
        last = pruned_at(self._warehouse)
        return last is None or not timedelta(0) <= self._now - last < GRACE

    @cached_property
    def versions(self) -> Mapping[str, frozenset[int]]:
        """Table -> the versions that cuts name, those included that are forgotten now."""
        return versions_in_cuts(self._warehouse)

    @cached_property
    def before_roll_backs(self) -> Mapping[str, frozenset[int]]:
        """Table -> the versions that tokens of `changes_since` need."""
        return versions_before_roll_backs(self._warehouse, self._retention.days, self._now)

    def forget(self) -> int:
        """Forget those that are not kept; returns how many there were."""
        if not self.may_go or not self.versions:
            return 0
        return retry_on_conflict(prune_cuts)(self._warehouse, self._retention, self._now)


@dataclass(frozen=True)
class TableUpkeep:
    """The maintenance of one table: first what makes room (`free`), after that of all tables what keeps this one small
    (`go_on`). `is_frequent`: the part that is worth its while every ten minutes."""

    warehouse: Warehouse
    table: Maintained
    retention: Retention
    cuts: KeptCuts
    full_bytes: int
    is_frequent: bool = False

    def free(self) -> TableDone | None:
        """Forget and delete what nobody needs. None where there is no such table."""
        done = TableDone(self.table.name)
        try:
            if Table.open(self.warehouse, self.table.name) is None:
                return None
        except TableDamaged as error:
            return replace(done, problem=str(error))
        if self.table.name == consistent_cuts.NAME:
            done = after_step(done, self._prune)
        return after_step(done, self._vacuum_of_cuts if self.table.is_of_a_cut else self._vacuum)

    def _prune(self, done: TableDone) -> TableDone:
        return replace(done, pruned=self.cuts.forget())

    def go_on(self, done: TableDone) -> TableDone:
        """Write what keeps the table small, after all tables were freed of what nobody needs."""
        clean_log = self._clean_log_of_cuts if self.table.is_of_a_cut else self._clean_log
        looks = () if self.is_frequent else (self._look_after_rows,)
        for step in (*looks, self._pack, clean_log):
            if done.left is None and done.failure is None:
                done = after_step(done, step)
        return done

    def _look_after_rows(self, done: TableDone) -> TableDone:
        is_state = self.table.name.startswith(f"{current_state.LAYER}/")
        if not is_state and not self.table.name.startswith(f"{formula_values.LAYER}/"):
            return done
        if is_state:
            self._note_counts()
        separated = separate(self.warehouse, self.table.name)
        return replace(done, separated=separated.files, given_up=separated.given_up)

    def _pack(self, done: TableDone) -> TableDone:
        if self.table.packing is None:
            return done
        times = OFTEN_TIMES_LARGEST if self.is_frequent else TIMES_LARGEST
        packed = pack(self.warehouse, self.table.name, self.table.packing, self.full_bytes, times)
        return replace(done, packed=packed.files, packed_into=packed.into, given_up=done.given_up + packed.given_up)

    @property
    def _entity(self) -> str:
        return self.table.name.partition("/")[2]

    @retry_on_conflict
    def _note_counts(self) -> None:
        """So that nobody has to read a table's rows to count them, of which the last batch noted nothing: an older
        release wrote it."""
        state = CurrentState.open(self.warehouse, self._entity)
        if state is not None:
            state.note_counts()

    def _vacuum(self, done: TableDone) -> TableDone:
        """Delete what nobody needs, files of killed tasks included."""
        vacuumed = 0
        if not self._is_read_for_long:
            found = vacuum_but_for(
                self.warehouse, self.table.name, (), self.cuts.began, young_seconds=self._young_seconds
            )
            vacuumed += found.files
        table = Table.open(self.warehouse, self.table.name) if not self.is_frequent else None
        if table is not None:
            vacuumed += table.vacuum(KEPT_HOURS, orphans=True)
        return replace(done, vacuumed=vacuumed)

    @property
    def _young_seconds(self) -> float:
        """Views name the files of formula values beside those of a cut, and can be read for as long as it."""
        if not self.table.name.startswith((f"{formula_values.LAYER}/", f"{earlier_formula_values.LAYER}/")):
            return READ_SECONDS
        return max(READ_SECONDS, timedelta(hours=self.retention.batch_cut_hours).total_seconds()) + YOUNG_SECONDS

    @property
    def _is_read_for_long(self) -> bool:
        """A large copy is applied for hours."""
        return self.table.name.startswith(f"{snapshots.LAYER}/")

    @retry_on_conflict
    def _clean_log(self, done: TableDone) -> TableDone:
        """Write a checkpoint, and forget old commits, which nothing needs."""
        table = Table.open(self.warehouse, self.table.name)
        if table is not None:
            # What is read for long is vacuumed by what checkpoints say of it, the others while their log does. A week
            # of a busy `raw_events` is 600,000 files that were replaced, which every checkpoint would repeat.
            files_hours = None if self._is_read_for_long else self.retention.log_hours
            table.keep(files_hours=files_hours, log_hours=self.retention.log_hours)
            table.checkpoint()
            table.clean_log()
        return done

    def _vacuum_of_cuts(self, done: TableDone) -> TableDone:
        """Delete what neither a cut needs nor whoever opened the table within the last hour."""
        if not self.cuts.may_go:
            return done
        found = vacuum_but_for(
            self.warehouse, self.table.name, self._kept, self.cuts.began, orphans=not self.is_frequent
        )
        return replace(done, vacuumed=found.files, lost=len(found.lost))

    def _clean_log_of_cuts(self, done: TableDone) -> TableDone:
        self._leave_the_log_alone()
        if self.cuts.may_go:
            clean_log_but_for(self.warehouse, self.table.name, self._kept, self.cuts.began)
        return done

    @property
    def _kept(self) -> frozenset[int]:
        """Of cuts, and of what was there before a table went back."""
        found = (each.get(self.table.name, frozenset()) for each in (self.cuts.versions, self.cuts.before_roll_backs))
        return frozenset[int]().union(*found)

    @retry_on_conflict
    def _leave_the_log_alone(self) -> None:
        """Writers' own cleanup goes by age and knows nothing of cuts."""
        table = Table.open(self.warehouse, self.table.name)
        if table is not None:
            hours = self.retention.cut_days * 24 + SPARE_HOURS
            table.refuse_change_feed()
            table.keep(files_hours=TOMBSTONE_HOURS, log_hours=hours, cleans_log=False)
