"""Maintenance of a warehouse: what a table costs depends on what is new in it, not on how old it is.

Each table is pruned, packed, vacuumed and given a checkpoint, one after another. Nothing of what is true changes, and
it may be stopped at any moment. Others may be at work: where they were first, a table is left as it is until the next
time; where maintenance was, they open the table again, as they do for any other writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any

from sfcdc_assets.config import Settings
from sfcdc_assets.errors import SfcdcError
from sfcdc_assets.lake import consistent_cuts
from sfcdc_assets.lake.consistent_cuts import Cut, newest_cuts, prune_cuts
from sfcdc_assets.lake.errors import ConcurrentCommit, StoreRefused, StoreUnavailable, TableDamaged
from sfcdc_assets.lake.retry_on_conflict import retry_on_conflict
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.table_upkeep import KEPT_HOURS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.maintenance.pack import Packed, pack
from sfcdc_assets.maintenance.tables import Maintained, maintained_tables
from sfcdc_assets.maintenance.tiers import FULL_BYTES

SPARE_HOURS = 24
"""Files outlive the cuts that need them by this: a cut is opened at one moment and read in the next ones."""


LOG_HOURS = 6
"""How long the log of a table is kept that no cut names. Each commit lists the log's folder twice, and that takes the
longer the more commits there are (on a local disk 0.8 ms for 1,000), and Delta would keep those of 30 days. Nothing is
shown by commits alone, and no writer takes as long as this between its reading and its commit."""


@dataclass(frozen=True)
class Retention:
    """For how many days cuts can be opened and payloads are kept (None: for ever), and for how many hours the logs of
    tables that no cut names; the others' are kept as long as the cuts."""

    cut_days: int
    payload_days: int | None = None
    log_hours: int = LOG_HOURS

    @property
    def hours_of_cut_tables(self) -> int:
        """How long the tables that cuts name keep files that were replaced."""
        return max(KEPT_HOURS, self.cut_days * 24 + SPARE_HOURS)


@dataclass(frozen=True)
class TableDone:
    """What was done to a table: rows pruned, files packed into fewer, files vacuumed; why it was left, if it was."""

    table: str
    pruned: int = 0
    packed: int = 0
    packed_into: int = 0
    vacuumed: int = 0
    seconds: float = 0.0
    left: str | None = None
    """Others were at work on it; the next maintenance takes it up."""
    problem: str | None = None
    """What a person has to mend."""

    @property
    def is_changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.pruned or self.packed or self.vacuumed)

    @property
    def is_worth_telling(self) -> bool:
        """Whether it says more than that there was nothing to do."""
        return self.is_changed or self.left is not None or self.problem is not None

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}

    def __str__(self) -> str:
        if self.problem is not None:
            return f"{self.table}: {self.problem}"
        did = [
            f"{self.pruned:,} rows pruned" if self.pruned else "",
            f"{self.packed:,} files packed into {self.packed_into:,}" if self.packed else "",
            f"{self.vacuumed:,} unused files deleted" if self.vacuumed else "",
            f"left for the next time ({self.left})" if self.left else "",
        ]
        noted = ", ".join(each for each in did if each) or "nothing to do"
        return f"{self.table}: {noted}, {self.seconds:.1f} s"


def maintain(
    warehouse: Warehouse, retention: Retention, now_ms: int, full_bytes: int = FULL_BYTES
) -> Iterator[TableDone]:
    """Maintain table after table; what was done to one is yielded before the next is begun. A damaged table is named
    and does not keep from the others. Raises `StoreRefused` and `StoreUnavailable`."""
    oldest_cut = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=retention.cut_days)
    kept_cuts = cache(partial(newest_cuts, warehouse))
    for each in maintained_tables(warehouse, retention.payload_days):
        started = time.monotonic()
        done = _Work(warehouse, each, retention, oldest_cut, kept_cuts, full_bytes).done()
        if done is not None:
            yield replace(done, seconds=time.monotonic() - started)


def maintain_with_settings(warehouse: Warehouse, settings: Settings, now_ms: int) -> Iterator[TableDone]:
    """As `maintain`, with the retentions that are set."""
    retention = Retention(settings.cut_retention_days, settings.payload_retention_days)
    return maintain(warehouse, retention, now_ms)


def summary_of(done: Sequence[TableDone]) -> str:
    """All tables in one line."""
    return (
        f"{len(done)} tables maintained, {sum(each.is_changed for each in done)} changed: "
        f"{sum(each.packed for each in done):,} files packed into {sum(each.packed_into for each in done):,}, "
        f"{sum(each.vacuumed for each in done):,} unused files deleted, {sum(each.pruned for each in done):,} rows "
        f"pruned, {sum(each.left is not None for each in done)} tables left for the next time, "
        f"{sum(each.problem is not None for each in done)} damaged; {sum(each.seconds for each in done):.1f} s."
    )


@dataclass(frozen=True)
class _Work:
    warehouse: Warehouse
    table: Maintained
    retention: Retention
    oldest_cut: datetime
    kept_cuts: Callable[[], Sequence[Cut]]
    """The newest of each channel, as they were when first asked for: after the cuts were pruned."""
    full_bytes: int

    def done(self) -> TableDone | None:
        """None where there is no such table."""
        name, pruned, packed = self.table.name, 0, Packed()
        try:
            if Table.open(self.warehouse, name) is None:
                return None
            if name == consistent_cuts.NAME:
                pruned = retry_on_conflict(prune_cuts)(self.warehouse, self.oldest_cut)
            if self.table.packing is not None:
                packed = pack(self.warehouse, name, self.table.packing, self.full_bytes)
            vacuumed = self._vacuum()
            self._clean_log()
        except (StoreRefused, StoreUnavailable):
            raise  # it is so for every table
        except ConcurrentCommit:
            return TableDone(name, pruned, packed.files, packed.into, left="other writers were first ten times")
        except SfcdcError as error:
            return TableDone(name, pruned, packed.files, packed.into, problem=str(error))
        left = f"{packed.given_up} groups of files were replaced meanwhile" if packed.given_up else None
        return TableDone(name, pruned, packed.files, packed.into, vacuumed, left=left)

    def _vacuum(self) -> int:
        """Delete what nobody needs, files of killed tasks included."""
        hours, versions = KEPT_HOURS, list[int]()
        if self.table.is_of_a_cut:
            hours, versions = self.retention.hours_of_cut_tables, self._versions_of_old_cuts()
            self._keep(hours)
        table = Table.open(self.warehouse, self.table.name)
        return table.vacuum(hours, orphans=True, versions=versions) if table is not None else 0

    @retry_on_conflict
    def _keep(self, hours: int) -> None:
        """The checkpoints' own memory of replaced files has to be as long; Delta's default is a week."""
        table = Table.open(self.warehouse, self.table.name)
        if table is not None and hours > KEPT_HOURS:
            table.keep(files_hours=hours)

    @retry_on_conflict
    def _clean_log(self) -> None:
        """Write a checkpoint, and forget old commits, which nothing needs."""
        hours = self.retention.log_hours
        table = Table.open(self.warehouse, self.table.name)
        if table is not None:
            table.keep(log_hours=max(hours, self.retention.hours_of_cut_tables) if self.table.is_of_a_cut else hours)
            table.checkpoint()
            table.clean_log()

    def _versions_of_old_cuts(self) -> list[int]:
        """Versions of the table in cuts that are kept although they are old: those that have no newer one."""
        old = [cut for cut in self.kept_cuts() if cut.applied_at is None or cut.applied_at < self.oldest_cut]
        named = {cut.tables[self.table.name] for cut in old if self.table.name in cut.tables}
        return [version for version in sorted(named) if self._is_there(version)]

    def _is_there(self, version: int) -> bool:
        try:
            return Table.open(self.warehouse, self.table.name, version) is not None
        except TableDamaged:
            return False
