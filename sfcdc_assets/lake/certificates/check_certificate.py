"""Check a certificate against the tables: everything is computed again and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from urllib.parse import unquote

from pyarrow import fs

from sfcdc_assets.lake.certificates.certificate import (
    FORM,
    Certificate,
    counts_of,
    hash_of,
    last_audit,
    log_entry_hash,
    of_table,
    path_of,
    read_certificate,
)
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.consistent_cuts import Cut, cuts
from sfcdc_assets.lake.warehouse import Warehouse


@dataclass(frozen=True)
class Checked:
    """What of a certificate is not so, and what cannot be looked at any more, in words; `tables`: compared."""

    number: int
    tables: int
    wrong: tuple[str, ...]
    gone: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {**vars(self), "holds": not self.wrong and not self.gone}


def check(warehouse: Warehouse, certificate: Certificate) -> Checked:
    """Check a certificate, and the chain before it. Reads every row of its tables once; none where it was changed."""
    number = certificate.get("number", 0)
    wrong = tuple(_chain(warehouse, certificate))
    if certificate.get("certificate") != FORM:
        return Checked(number, 0, (f"it is no {FORM}", *wrong), ())
    if hash_of(certificate) != certificate.get("sha256"):
        return Checked(number, 0, wrong, ())
    comparison = _Comparison(warehouse)
    try:
        for said in certificate["cuts"]:
            comparison.add(said)
    except (AttributeError, KeyError, TypeError) as error:
        comparison.wrong.append(f"it has not the form of a certificate ({type(error).__name__}: {error})")
    return Checked(number, comparison.tables, (*wrong, *comparison.wrong), tuple(comparison.gone))


class _Comparison:
    """What the tables say beside a certificate, cut after cut."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse, self._known = warehouse, cuts(warehouse)
        self.wrong: list[str] = []
        self.gone: list[str] = []
        self.tables = 0

    def add(self, said: Mapping[str, Any]) -> None:
        """Compare a cut."""
        cut = next((each for each in self._known if _is_it(each, said)), None)
        if cut is None:
            self.gone.append(f"{said['channel']} at position {said['position']}: the cut is not kept any more")
        for entity, of_entity in said["entities"].items():
            named = {path: each["version"] for path, each in of_entity["tables"].items()}
            if cut is not None and cut.tables_of(entity) != named:
                self.wrong.append(f"{entity}: the cut names other versions than the certificate")
            try:
                self._compare(entity, of_entity, named)
            except TableDamaged as error:
                is_there = _has_all_files(self._warehouse, error.table, named.get(error.table))
                (self.wrong if is_there else self.gone).append(str(error))
            if cut is not None and last_audit(self._warehouse, entity, cut.applied_at) != of_entity["last_audit"]:
                self.wrong.append(f"{entity}: `audits` has another last comparison with the org")
        self.wrong += _resume(self._warehouse, said["resume"])

    def _compare(self, entity: str, said: Mapping[str, Any], versions: Mapping[str, int]) -> None:
        for path, each in said["tables"].items():
            self.wrong += _differences(path, each, of_table(self._warehouse, path, each["version"]))
            self.tables += 1
        for name, found in counts_of(self._warehouse, entity, versions).items():
            if found != said[name]:
                self.wrong.append(f"{entity}: {name} is {found}, not {said[name]}")


def _chain(warehouse: Warehouse, certificate: Certificate) -> Iterator[str]:
    """Yield what is wrong with the certificate itself and with those before it."""
    number: Any = certificate.get("number")
    while True:
        if hash_of(certificate) != certificate.get("sha256"):
            yield f"certificate {number} was changed after it was made: its hash is not that of its content"
        before = certificate.get("previous_sha256")
        if not isinstance(number, int) or number <= 1 or before is None:
            if number != 1 or before is not None:
                yield f"certificate {number} names none before it, and is not the first"
            return
        previous = read_certificate(warehouse, number - 1)
        if previous is None:
            yield f"the chain is broken: {path_of(number - 1)} is missing"
            return
        if hash_of(previous) != before:
            yield f"the chain is broken: {path_of(number - 1)} is not the one that certificate {number} follows"
        certificate, number = previous, number - 1


def _has_all_files(warehouse: Warehouse, name: str, version: int | None) -> bool:
    """Return whether nothing of a table's version was deleted, as it is with its cut: what cannot be read of it was
    changed."""
    try:
        table = Table.open(warehouse, name, version)
    except TableDamaged:
        return False
    paths = [unquote(file.path) for file in table.files()] if table is not None else []
    found = warehouse.filesystem(name).get_file_info(paths) if paths else []
    return all(info.type is fs.FileType.File for info in found)


def _is_it(cut: Cut, said: Mapping[str, Any]) -> bool:
    at = cut.applied_at.astimezone(UTC).isoformat() if cut.applied_at is not None else None
    return (cut.channel, cut.position, at) == (said["channel"], said["position"], said["applied_at"])


def _differences(path: str, said: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    if found["rows"] != said["rows"]:
        yield f"{path}: it has {found['rows']} rows, not {said['rows']}"
    elif found["rows_sha256"] != said["rows_sha256"]:
        yield f"{path}: its rows are not those of the certificate"
    entry = found["log_entry_sha256"]  # the log is cleaned up with age
    if None not in (entry, said["log_entry_sha256"]) and entry != said["log_entry_sha256"]:
        yield f"{path}: the log entry of version {said['version']} is another one"


def _resume(warehouse: Warehouse, said: Mapping[str, Any] | None) -> Iterator[str]:
    if said is None or said["log_entry_sha256"] is None:
        return
    entry = log_entry_hash(warehouse, "raw_events", said["version"])
    if entry is not None and entry != said["log_entry_sha256"]:
        yield f"raw_events: the log entry of version {said['version']} is another one"
