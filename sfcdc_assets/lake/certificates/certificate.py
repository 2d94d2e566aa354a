"""A certificate of the newest cuts: what each of their tables holds, on which entries of the log it rests, what is
suspect, what was compared with the org last; and the hash of the certificate before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pyarrow.compute as pc
from pyarrow import fs

from sfcdc_assets.lake.certificates.row_hash import hash_rows
from sfcdc_assets.lake.delta.commit_protocol import LOG
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.notes import put_note, read_note
from sfcdc_assets.lake.tables import audits, current_state, gap_reconciliation, raw_events
from sfcdc_assets.lake.tables.consistent_cuts import Cut, newest_cuts
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.stream_checkpoint import StoredCheckpoint
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.progress import TableSearched, notify
from sfcdc_assets.settings.channel_kinds import POLLED

FOLDER = "certificates"
FORM = "sfcdc certificate 1"
_NAME = re.compile(r"(\d{6})\.json")

Certificate = dict[str, Any]
"""As JSON has it; `sha256` is of all else."""


class NothingToCertify(SfcdcError):
    """The warehouse has no cut yet."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"{root} has no consistent cut to certify. Run `sfcdc sync`: a run that is done notes one, and what it "
            "waits for is in `sfcdc status`."
        )


def hash_of(certificate: Mapping[str, Any]) -> str:
    """Return the hash of a certificate: of all but `sha256`, as JSON with sorted names, without spaces, in UTF-8."""
    said = {name: value for name, value in certificate.items() if name != "sha256"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def numbers(warehouse: Warehouse) -> list[int]:
    """Return the numbers of the certificates that there are, in order."""
    found = warehouse.filesystem("").get_file_info(fs.FileSelector(FOLDER, allow_not_found=True))
    return sorted(int(matched[1]) for info in found if (matched := _NAME.fullmatch(info.base_name)))


def path_of(number: int) -> str:
    """Return where a certificate lies, below the warehouse."""
    return f"{FOLDER}/{number:06}.json"


def read_certificate(warehouse: Warehouse, number: int) -> Certificate | None:
    """Return a certificate as it was written; None where there is none."""
    text = read_note(warehouse, path_of(number))
    return json.loads(text) if text is not None else None


def certify(warehouse: Warehouse) -> Certificate:
    """Write a certificate of the newest cut of each channel, after the last one; returns it.

    Every row of the tables is read once; memory holds one of their files. Raises `NothingToCertify`, and
    `TableDamaged` for a table that cannot be read at the cut.
    """
    found = newest_cuts(warehouse)
    if not found:
        raise NothingToCertify(warehouse.root)
    last = max(numbers(warehouse), default=0)
    before = read_certificate(warehouse, last) if last else None
    certificate: Certificate = {
        "certificate": FORM,
        "number": last + 1,
        "previous_sha256": hash_of(before) if before is not None else None,
        "made_at": clock.now().isoformat(),
        "cuts": [_of_cut(warehouse, cut) for cut in found],
    }
    certificate["sha256"] = hash_of(certificate)
    put_note(warehouse, path_of(last + 1), json.dumps(certificate, indent=1, ensure_ascii=False).encode())
    return certificate


def _of_cut(warehouse: Warehouse, cut: Cut) -> dict[str, Any]:
    entities = sorted({path.partition("/")[2] for path in cut.tables})
    return {
        "channel": cut.channel,
        "position": cut.position,
        "commit_timestamp": time_of(cut.commit_timestamp),
        "applied_at": time_of(cut.applied_at),
        "resume": None if cut.channel == POLLED else _resume(warehouse, cut.channel),
        "entities": {entity: _of_entity(warehouse, cut, entity) for entity in entities},
    }


def _resume(warehouse: Warehouse, channel: str) -> dict[str, Any]:
    """Return where the channel's stream goes on, and the log entry that says so."""
    table = RawEvents.open(warehouse).table
    return {
        **resume_of(table, channel),
        "version": table.version,
        "log_entry_sha256": log_entry_hash(warehouse, raw_events.NAME, table.version),
    }


def resume_of(table: Table, channel: str) -> dict[str, Any]:
    """Return where a channel's stream goes on by a version of `raw_events`."""
    stored = StoredCheckpoint.of(table, channel)
    return {
        "position": stored.position,
        "complete_position": stored.complete_position,
        "replay_id": stored.replay_id.hex() or None,
    }


def _of_entity(warehouse: Warehouse, cut: Cut, entity: str) -> dict[str, Any]:
    tables = cut.tables_of(entity)
    return {
        "lags": lags_of(cut, entity),
        "tables": {path: of_table(warehouse, path, version) for path, version in sorted(tables.items())},
        **counts_of(warehouse, entity, tables),
        "last_audit": last_audit(warehouse, entity, cut.applied_at),
    }


def lags_of(cut: Cut, entity: str) -> dict[str, Any] | None:
    """Return how an entity lags in a cut; None where it does not."""
    lag = cut.lag_of(entity)
    return None if lag is None else {"position": lag.position, "as_of": time_of(lag.as_of), "reason": lag.reason}


def of_table(warehouse: Warehouse, path: str, version: int) -> dict[str, Any]:
    """Return what a certificate says of a table's version. Raises `TableDamaged` where it cannot be opened."""
    table = Table.open(warehouse, path, version)
    assert table is not None, path
    # By the files themselves: a scan goes by what the log says of their sizes, and would stop at one that was changed.
    found = hash_rows(table.read_files([file.path], table.schema.names) for file in table.files())
    notify(TableSearched(path, found.rows, erased=False))
    return {
        "version": version,
        "rows": found.rows,
        "rows_sha256": found.digest,
        "log_entry_sha256": log_entry_hash(warehouse, path, version),
    }


def log_entry_hash(warehouse: Warehouse, path: str, version: int) -> str | None:
    """Return the hash of the commit that made a version; None where the log was cleaned up."""
    try:
        with warehouse.filesystem(path).open_input_file(f"{LOG}/{version:020}.json") as file:
            return sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return None


def counts_of(warehouse: Warehouse, entity: str, tables: Mapping[str, int]) -> dict[str, Any]:
    """Return the entity's living, deleted and suspect rows at these versions, and its open suspects by reason."""
    living = deleted = doubtful = 0
    name, ledger = current_state.name_of(entity), gap_reconciliation.name_of(entity)
    for part in _batches(warehouse, name, tables, ["_is_deleted", "_in_doubt"]):
        gone = pc.sum(pc.fill_null(part["_is_deleted"], fill_value=False), min_count=0).as_py()
        deleted, living = deleted + gone, living + part.num_rows - gone
        doubtful += pc.sum(pc.fill_null(part["_in_doubt"], fill_value=False), min_count=0).as_py()
    open_suspects: dict[str, int] = {}
    for part in _batches(warehouse, ledger, tables, ["reason", "status"]):
        for row in part.to_pylist():
            if row["status"] == "open":
                open_suspects[row["reason"]] = open_suspects.get(row["reason"], 0) + 1
    return {
        "living": living,
        "deleted": deleted,
        "in_doubt": doubtful,
        "open_suspects": dict(sorted(open_suspects.items())),
    }


def _batches(warehouse: Warehouse, name: str, tables: Mapping[str, int], columns: Sequence[str]) -> Iterator[Any]:
    table = Table.open(warehouse, name, tables[name]) if name in tables else None
    if table is not None and table.count():
        yield from table.batches(columns, "true")


def last_audit(warehouse: Warehouse, entity: str, until: datetime | None) -> dict[str, Any] | None:
    """Return what the entity's last comparison with the org came to, of those begun until the cut was reached."""
    table = Table.open(warehouse, audits.NAME)
    if table is None:
        return None
    rows = table.rows(predicate=f"entity_name = '{entity}'")
    rows = [row for row in rows if until is None or row["audited_at"] <= until]
    newest = max(rows, key=lambda row: row["audited_at"], default=None)
    return {**newest, "audited_at": time_of(newest["audited_at"])} if newest is not None else None


def time_of(moment: datetime | None) -> str | None:
    """Return a time as a certificate has it."""
    return None if moment is None else moment.astimezone(UTC).isoformat()
