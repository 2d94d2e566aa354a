"""What only older versions of a table have: files that name a record are deleted, and with them the cuts that need
them; the log's statistics of such files go too, where they may hold values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import unquote

from pyarrow import fs

from sfcdc_assets.lake.delta.commit_protocol import LOG, retry_on_conflict
from sfcdc_assets.lake.delta.dead_files import dead_files_with
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.erasure.erasable_tables import Erasable
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.lake.tables.consistent_cuts import Cut, add_cut, cuts, drop_cuts, newest_cuts, versions_in_cuts
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..*parquet")


def old_files(warehouse: Warehouse, wanted: Erasable) -> list[str]:
    """Return the files below the table that its newest version does not have, and that have rows of the records."""
    rows = wanted.rows
    return dead_files_with(
        warehouse, wanted.table, rows.columns, lambda part: rows.count(part) > 0, folder=wanted.folder
    )


@retry_on_conflict
def release_cuts(warehouse: Warehouse, found: Mapping[str, Sequence[str]]) -> int:
    """Drop the cuts that name a version with one of these files (table -> paths); returns how many there were. The
    newest of a channel is noted again with the tables as they are now, if they are of the same batches."""
    named = versions_in_cuts(warehouse)
    gone = {
        (name, version)
        for name, paths in found.items()
        for version in named.get(name, ())
        if paths and not _files_of(warehouse, name, version).isdisjoint(paths)
    }
    if not gone:
        return 0
    dropped = [each for each in cuts(warehouse) if not gone.isdisjoint(each.tables.items())]
    for newest in newest_cuts(warehouse):
        if not gone.isdisjoint(newest.tables.items()) and (again := _again(warehouse, newest, gone)) is not None:
            add_cut(warehouse, again, clock.now())
    return drop_cuts(warehouse, dropped)


def _files_of(warehouse: Warehouse, name: str, version: int) -> set[str]:
    """Return the files of a version; none of one that nobody can open any more."""
    try:
        table = Table.open(warehouse, name, version)
        return {unquote(file.path) for file in table.files()} if table is not None else set()
    except TableDamaged:
        return set()


def _again(warehouse: Warehouse, cut: Cut, gone: set[tuple[str, int]]) -> Cut | None:
    """Return the cut with the newest versions of the entities that it loses; None where one of them has moved on: the
    next run notes a cut."""
    tables = dict(cut.tables)
    for entity in {name.partition("/")[2] for name, version in cut.tables.items() if (name, version) in gone}:
        state = current_state.name_of(entity)
        batches = {
            table.transaction_version(BATCH) if (table := Table.open(warehouse, state, at)) is not None else None
            for at in (cut.tables.get(state), None)
        }
        if len(batches) > 1:
            return None
        for name in cut.tables_of(entity):
            table = Table.open(warehouse, name)
            if table is not None:
                tables[name] = table.version
    return replace(cut, tables=tables)


def forget_statistics(warehouse: Warehouse, name: str) -> None:
    """Take the statistics of files that are gone out of the table's log, where it keeps them of columns with values:
    each entry is written again in its place, and no version is missing that a writer counts on."""
    table = Table.open(warehouse, name)
    if table is None or not table.keeps_all_statistics:
        return  # of those columns that identify rows
    table.checkpoint()
    filesystem, live = warehouse.filesystem(name), {file.path for file in table.files()}
    files = [info.base_name for info in filesystem.get_file_info(fs.FileSelector(LOG))]
    for file in filter(_COMMIT.fullmatch, files):
        with filesystem.open_input_file(f"{LOG}/{file}") as source:
            before = source.read()
        after = b"\n".join(_without_statistics(before.splitlines(), live))
        if after != before.rstrip(b"\n"):
            with filesystem.open_output_stream(f"{LOG}/{file}") as sink:
                sink.write(after + b"\n")
    for file in sorted(filter(_CHECKPOINT.fullmatch, files))[:-1]:
        with suppress(FileNotFoundError):
            filesystem.delete_file(f"{LOG}/{file}")


def _without_statistics(lines: Sequence[bytes], live: set[str]) -> Iterator[bytes]:
    for line in lines:
        action = json.loads(line)
        added = action.get("add", {})
        if not added.get("stats") or added["path"] in live or unquote(added["path"]) in live:
            yield line
            continue
        kept = {"numRecords": json.loads(added["stats"]).get("numRecords")}
        yield json.dumps({**action, "add": {**added, "stats": json.dumps(kept)}}, separators=(",", ":")).encode()
