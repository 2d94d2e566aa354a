"""Vacuum by versions: data files and log entries that no kept version of a table needs go, whatever their age.

Delta's own vacuum and log cleanup go by age. Kept versions thin out with age, so here they decide: of each pair of
neighbouring ones, what lies between them in the log, and is in neither, is needed by nobody, because a file is in the
versions from the one that added it to the one that removed it. So a pass costs what has become unneeded, and not what
is kept. A kept version gets a checkpoint of its own where that saves log entries. Data files go before the log entries
that name them: a pass that is killed is made up for by the next one.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import LOG
from sfcdc_assets.lake.delta.log_files import LogFiles, written_at
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged, TableNotWritten
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import FROM_STORE, no_room, reason_of
from sfcdc_assets.lake.warehouse import Warehouse

YOUNG_SECONDS = 1_800.0
"""A version stays until its successor is so old, kept or not: for readers that opened the table itself."""
LARGE_BYTES = 256 * 1024
"""A checkpoint of this size may have tombstones by the thousand."""
ORPHAN_SECONDS = 7 * 86_400.0
"""A file that no version names stays so long: a task may have written it for a commit that is still to come."""


@dataclass(frozen=True)
class Vacuumed:
    """`files`: how many data files were deleted; `lost`: kept versions that cannot be opened any more, because another
    client cleaned up the log."""

    files: int = 0
    lost: tuple[int, ...] = ()


def vacuum_but_for(
    warehouse: Warehouse,
    name: str,
    kept: Collection[int],
    now: float,
    *,
    orphans: bool = False,
    young_seconds: float = YOUNG_SECONDS,
) -> Vacuumed:
    """Delete data files that only other versions need than `kept`, the newest, and those that were replaced within the
    last `young_seconds`. Writes nothing.

    `now`: epoch seconds by the clock of the files; `orphans`: files that no version names too, if they are a week old.
    A table whose log has checkpoints of forms that deltalake does not write is left as it is. Raises `TableDamaged`.
    """
    with _opened(warehouse, name, kept, now, young_seconds) as versions:
        return versions.vacuum(orphans=orphans) if versions is not None else Vacuumed()


def clean_log_but_for(warehouse: Warehouse, name: str, kept: Collection[int], now: float) -> int:
    """Delete the log entries that only other versions need than those, after `vacuum_but_for` with the same ones;
    returns how many files that were. The newest version and kept ones get checkpoints. Raises as that does."""
    with _opened(warehouse, name, kept, now) as versions:
        return versions.clean_log() if versions is not None else 0


def version_at(warehouse: Warehouse, name: str, moment: float) -> int | None:
    """Return the newest version that can still be opened and was there at a time (epoch seconds by the clock of the
    files), or the oldest one; None: the newest. Delta's own search by time needs every commit, and of those few are
    left."""
    log = LogFiles.read(warehouse, name)
    written = {**log.checkpoints, **log.commits}
    openable = sorted(each for each in written if log.base(each) is not None)
    return max((each for each in openable if written[each] <= moment), default=openable[0] if openable else None)


@contextmanager
def _opened(
    warehouse: Warehouse, name: str, kept: Collection[int], now: float, young_seconds: float = YOUNG_SECONDS
) -> Iterator[_Versions | None]:
    table = Table.open(warehouse, name)
    try:
        with store_refusals(warehouse.root):
            log = LogFiles.read(warehouse, name) if table is not None else None
            if table is None or log is None or log.has_other_forms:
                yield None
            else:
                yield _Versions(warehouse, table, log, now, kept, young_seconds)
    except FROM_STORE as error:
        if no_room(str(error)) is not None:
            raise TableNotWritten(name, {}, warehouse.uri(name), reason_of(error)) from error
        raise TableDamaged(name, None, None, f"cannot be read ({reason_of(error)})") from error


class _Versions:
    """Those of a table that stay: the kept ones, and every one from a version on."""

    def __init__(
        self,
        warehouse: Warehouse,
        table: Table,
        log: LogFiles,
        now: float,
        kept: Collection[int],
        young_seconds: float,
    ) -> None:
        self._uri, self._is_local = warehouse.uri(table.name), warehouse.is_local
        self._store = warehouse.filesystem(table.name)
        self._table, self._log, self._newest, self._now = table, log, table.version, now
        young = [each for each, written in log.commits.items() if now - written < young_seconds]
        current = max(0, min(young) - 1) if young else self._newest
        openable = (each for each in range(current, self._newest + 1) if log.base(each) is not None)
        self._stays_from = next(openable, self._newest)
        before = sorted(each for each in set(kept) if each < self._stays_from)
        self._lost = tuple(each for each in before if log.base(each) is None)
        self._kept = [each for each in before if each not in self._lost]

    def vacuum(self, *, orphans: bool) -> Vacuumed:
        """Delete data files."""
        anchors = [*self._kept, self._stays_from]
        unneeded = self._between(anchors)
        listed = self._listed() if unneeded or orphans else {}
        unneeded &= listed.keys()
        if orphans:
            unneeded |= self._orphans(listed, anchors)
        return Vacuumed(self._delete(unneeded), self._lost)

    def _between(self, anchors: list[int]) -> set[str]:
        """Paths of the files that are in versions between the anchors only, as far as the log still names them."""
        found: set[str] = set()
        before, live = -1, frozenset[str]()
        for anchor in anchors:
            inside = self._log.between(before, anchor)
            if inside and anchor != before + 1:
                named = {path for version in inside for path in self._named(version, is_last=version == anchor)}
                if named:
                    live = self._live(before) if before >= 0 else frozenset()
                    found |= named - live - self._live(anchor)
            before = anchor
        return found - self._live(self._newest) if found else found

    def _named(self, version: int, *, is_last: bool) -> Iterator[str]:
        if version in self._log.commits:
            with self._store.open_input_file(f"{LOG}/{version:020}.json") as file:
                content = bytes(file.read())
            for line in content.splitlines():
                if b'"add"' in line or b'"remove"' in line:
                    action = json.loads(line)
                    yield from _relative(each["path"] for kind in ("add", "remove") if (each := action.get(kind)))
        if version in self._log.checkpoints and not is_last:
            yield from _relative(
                self._checkpoint(version, ["add.path"])["add"].combine_chunks().field("path").to_pylist()
            )

    def _live(self, version: int) -> frozenset[str]:
        actions = DeltaTable(self._uri, version=version).get_add_actions()
        return frozenset(_relative(pl.DataFrame(actions)["path"].to_list()))

    def _checkpoint(self, version: int, columns: list[str] | None = None) -> pa.Table:
        with self._store.open_input_file(f"{LOG}/{version:020}.checkpoint.parquet") as file:
            return pq.ParquetFile(file).read(columns)

    def _write_checkpoints(self) -> None:
        """Write checkpoints for kept versions that would otherwise keep commits of versions that are not. Without
        tombstones: only those of the newest version say something to anybody."""
        kept = set(self._kept)
        for version in self._kept:
            base = self._log.base(version)
            assert base is not None, version
            if base != version and all(each in kept for each in range(base + 1, version + 1)):
                continue
            if base != version:
                DeltaTable(self._uri, version=version).create_checkpoint()
            elif self._log.sizes[version] < LARGE_BYTES:
                continue
            rows = self._checkpoint(version)
            if rows["remove"].null_count < rows.num_rows:
                self._replace(f"{LOG}/{version:020}.checkpoint.parquet", rows.filter(pc.is_null(rows["remove"])))
            self._log.checkpoints[version] = self._now

    def _replace(self, path: str, rows: pa.Table) -> None:
        """Replace a file in one step: an object of a store is there when it is whole."""
        target = f"{LOG}/.{uuid.uuid4().hex}.tmp" if self._is_local else path
        with self._store.open_output_stream(target) as file:
            pq.write_table(rows, file)
        if target != path:
            self._store.move(target, path)

    def clean_log(self) -> int:
        """Delete the entries that no version needs which stays; the newest commit stays for those who look whether
        there is a newer one."""
        if self._newest not in self._log.checkpoints:
            self._table.checkpoint()
            self._log.checkpoints[self._newest] = self._now
        self._write_checkpoints()
        commits, checkpoints = {self._newest}, {self._newest}
        for version in (*self._kept, self._stays_from):
            base = self._log.base(version)
            assert base is not None, version
            checkpoints.add(base)
            commits.update(range(base + 1, version + 1))
        unneeded = [
            f"{LOG}/{version:020}.{kind}"
            for kind, there, needed in (
                ("json", self._log.commits, commits),
                ("checkpoint.parquet", self._log.checkpoints, checkpoints),
            )
            for version in there
            if version < self._stays_from and version not in needed
        ]
        for version, names in self._log.others.items():
            if version < self._stays_from and version not in commits:
                unneeded += [f"{LOG}/{name}" for name in names]
        return self._delete(unneeded)

    def _orphans(self, listed: dict[str, float], anchors: list[int]) -> set[str]:
        old = {path for path, written in listed.items() if self._now - written >= ORPHAN_SECONDS}
        for version in dict.fromkeys((self._newest, *reversed(anchors))):
            if not old:
                break
            old -= self._live(version)
        if not old:
            return old
        young = (each for each in self._log.commits if each > anchors[-1])
        return old - {path for version in young for path in self._named(version, is_last=True)}

    def _listed(self) -> dict[str, float]:
        """Return the data files below the table, with the time at which each was written; without those of tables that
        are built in folders below it."""
        found = self._store.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        paths = [(info.path.lstrip("/"), written_at(info)) for info in found if info.type is fs.FileType.File]
        built = {path.partition("/")[0] for path, _ in paths if f"/{LOG}/" in path}
        return {
            path: written
            for path, written in paths
            if path.endswith(".parquet") and not path.startswith("_") and path.partition("/")[0] not in built
        }

    def _delete(self, paths: Iterable[str]) -> int:
        done = 0
        for path in sorted(paths):
            with suppress(FileNotFoundError):  # another maintenance was faster
                self._store.delete_file(path)
                done += 1
        return done


def _relative(paths: Iterable[str | None]) -> list[str]:
    """Paths below the table as files are called, without those of other places."""
    return [unquote(path) for path in paths if path and "://" not in path and not path.startswith("/")]
