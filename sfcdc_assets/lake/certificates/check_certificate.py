"""Check a certificate against the tables: everything is computed again and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from pyarrow import fs

from sfcdc_assets.lake.certificates.certificate import (
    FORM,
    Certificate,
    counts_of,
    hash_of,
    lags_of,
    last_audit,
    log_entry_hash,
    of_table,
    path_of,
    read_certificate,
    resume_of,
    time_of,
)
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables import raw_events
from sfcdc_assets.lake.tables.consistent_cuts import Cut, cuts
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.channel_kinds import POLLED


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
        else:
            self.wrong += _of_cut(self._warehouse, cut, said)
        self.wrong += _resume(self._warehouse, said["channel"], said["resume"])
        for entity, of_entity in said["entities"].items():
            named = {path: each["version"] for path, each in of_entity["tables"].items()}
            try:
                self._compare(entity, of_entity, named)
            except TableDamaged as error:
                is_there = _has_all_files(self._warehouse, error.table, named.get(error.table))
                (self.wrong if is_there else self.gone).append(str(error))

    def _compare(self, entity: str, said: Mapping[str, Any], versions: Mapping[str, int]) -> None:
        for path, each in said["tables"].items():
            self.wrong += _differences(path, each, of_table(self._warehouse, path, each["version"]))
            self.tables += 1
        self.wrong += _unlike(entity, counts_of(self._warehouse, entity, versions), said)


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
    at = time_of(cut.applied_at)
    return (cut.channel, cut.position, at) == (said["channel"], said["position"], said["applied_at"])


def _of_cut(warehouse: Warehouse, cut: Cut, said: Mapping[str, Any]) -> Iterator[str]:
    """Yield what `consistent_cuts` and `audits` say otherwise."""
    yield from _unlike("cut", {"commit_timestamp": time_of(cut.commit_timestamp)}, said)
    tables = (of_entity["tables"].items() for of_entity in said["entities"].values())
    if cut.tables != {path: each["version"] for of_entity in tables for path, each in of_entity}:
        yield "cut: it names other tables or versions than the certificate"
    for entity, of_entity in said["entities"].items():
        found = {"lags": lags_of(cut, entity), "last_audit": last_audit(warehouse, entity, cut.applied_at)}
        yield from _unlike(entity, found, of_entity)


def _unlike(what: str, found: Mapping[str, Any], said: Mapping[str, Any]) -> Iterator[str]:
    return (f"{what}: {name} is {each}, not {said[name]}" for name, each in found.items() if each != said[name])


def _differences(path: str, said: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    if found["rows"] != said["rows"]:
        yield f"{path}: it has {found['rows']} rows, not {said['rows']}"
    elif found["rows_sha256"] != said["rows_sha256"]:
        yield f"{path}: its rows are not those of the certificate"
    entry = found["log_entry_sha256"]  # the log is cleaned up with age
    if None not in (entry, said["log_entry_sha256"]) and entry != said["log_entry_sha256"]:
        yield f"{path}: the log entry of version {said['version']} is another one"


def _resume(warehouse: Warehouse, channel: str, said: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what is wrong with where the stream goes on; that version's log may have been cleaned up."""
    if channel == POLLED:
        return
    newest, version = Table.open(warehouse, raw_events.NAME), said["version"] if said is not None else 0
    if said is None:
        yield "resume: it is missing"
    elif newest is None or newest.version < version:
        yield f"resume: {raw_events.NAME} has no version {version}"
    else:
        entry = log_entry_hash(warehouse, raw_events.NAME, version)
        if None not in (entry, said["log_entry_sha256"]) and entry != said["log_entry_sha256"]:
            yield f"{raw_events.NAME}: the log entry of version {version} is another one"
        try:
            then = Table.open(warehouse, raw_events.NAME, version)
        except TableDamaged:
            then = None
        if then is not None:
            yield from _unlike("resume", resume_of(then, channel), said)
