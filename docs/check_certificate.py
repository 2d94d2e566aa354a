"""Check a certificate of `sfcdc certify` without sfcdc: `python check_certificate.py WAREHOUSE [CERTIFICATE]`.

Needs `pip install deltalake pyarrow`. docs/certificates.md specifies what is computed here. Exit code 0: it holds;
3: it does not; 1: it cannot be checked any more. The warehouse is a folder; one in an object store is copied first.
"""

import json
import struct
import sys
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256, shake_256
from math import isnan
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError


def field(content):
    """Return content after its length."""
    return len(content).to_bytes(4, "big") + content


def value(kind, each):
    """Return the bytes of one value that is not null; `each` as Arrow gives it to Python, times as numbers."""
    if pa.types.is_boolean(kind):
        return b"b1" if each else b"b0"
    if pa.types.is_integer(kind):
        return b"i%d" % each
    if pa.types.is_floating(kind):
        return b"d" + (b"\x7f\xf8" + bytes(6) if isnan(each) else struct.pack(">d", each + 0.0))
    if pa.types.is_date32(kind):
        return b"D%d" % each
    if pa.types.is_timestamp(kind):
        return b"t%d" % each
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return b"x" + each
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return b"l" + b"".join(field(b"n" if one is None else value(kind.value_type, one)) for one in each)
    return b"s" + each.encode()


def numbers(column):
    """Return times as microseconds since 1970 in UTC, dates as days."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column


def batches(warehouse, name, version=None):
    """Yield the rows of a version of a table, by default the newest, as its files have them."""
    for uri in DeltaTable(str(warehouse / name), version=version).file_uris():
        path = Path(unquote(uri.removeprefix("file://")))
        yield from pq.ParquetFile(path if path.is_absolute() else warehouse / name / path).iter_batches(8192)


def rows_of(*table):
    """Yield the same for Python."""
    return (row for batch in batches(*table) for row in batch.to_pylist())


def text(each):
    """Return a time as a certificate has it, anything else as it is."""
    return each.astimezone(UTC).isoformat() if isinstance(each, datetime) else each


def rows_and_hash(*table):
    """Return how many rows a version of a table has, and their hash."""
    rows = total = 0
    for batch in batches(*table):
        columns = []
        for name in sorted(batch.schema.names):
            kind, head = batch[name].type, field(name.encode())
            found = numbers(batch[name]).to_pylist()
            columns.append([b"" if each is None else head + field(value(kind, each)) for each in found])
        for row in zip(*columns, strict=True):
            rows, total = rows + 1, total + int.from_bytes(shake_256(b"".join(row)).digest(256), "big")
    return rows, sha256((total % (1 << 2048)).to_bytes(256, "big")).hexdigest()


def own_hash(certificate):
    """Return the hash of all that a certificate says."""
    said = {name: each for name, each in certificate.items() if name != "sha256"}
    return sha256(json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


def chain(folder, certificate):
    """Yield what is wrong with a certificate itself and with those before it."""
    while True:
        number, before = certificate["number"], certificate["previous_sha256"]
        if own_hash(certificate) != certificate["sha256"]:
            yield f"certificate {number} was changed after it was made"
        if (number == 1) != (before is None):
            yield f"certificate {number} does not follow the one before"
        if before is None:
            return
        path = folder / f"{number - 1:06}.json"
        if not path.is_file():
            yield f"the chain is broken: {path.name} is missing"
            return
        certificate = json.loads(path.read_text("utf-8"))
        if own_hash(certificate) != before:
            yield f"the chain is broken: {path.name} is not the one that certificate {number} follows"


def unlike(what, found, said):
    """Yield what is not as it is said."""
    return (f"{what}: {name} is {each}, not {said[name]}" for name, each in found.items() if each != said[name])


def table_differences(warehouse, name, said):
    """Yield what of a version of a table is not as it is said."""
    rows, digest = rows_and_hash(warehouse, name, said["version"])
    if rows != said["rows"]:
        yield f"{name}: it has {rows} rows, not {said['rows']}"
    elif digest != said["rows_sha256"]:
        yield f"{name}: its rows are not those of the certificate"
    yield from other_entry(warehouse, name, said)


def other_entry(warehouse, name, said):
    """Yield whether the log entry of a version is there, and another one."""
    entry, digest = warehouse / name / "_delta_log" / f"{said['version']:020}.json", said["log_entry_sha256"]
    if digest and entry.is_file() and sha256(entry.read_bytes()).hexdigest() != digest:
        yield f"{name}: the log entry of version {said['version']} is another one"


def entity_differences(warehouse, entity, said):
    """Yield what the rows of an entity's tables say otherwise."""
    state, suspects = Counter(), Counter()
    for layer, counted in (("current_state", state), ("gap_reconciliation", suspects)):
        if at := said["tables"].get(f"{layer}/{entity}"):
            for row in rows_of(warehouse, f"{layer}/{entity}", at["version"]):
                if counted is state:
                    counted["deleted" if row.get("_is_deleted") else "living"] += 1
                    counted["in_doubt"] += bool(row.get("_in_doubt"))
                elif row["status"] == "open":
                    counted[row["reason"]] += 1
    counts = {name: state[name] for name in ("living", "deleted", "in_doubt")}
    yield from unlike(entity, {**counts, "open_suspects": dict(suspects)}, said)


def cut_differences(warehouse, said):
    """Yield what `consistent_cuts` and `audits` say otherwise. Raises LookupError where the cut is not kept."""
    names = ("channel", "position", "applied_at")
    rows = rows_of(warehouse, "consistent_cuts")
    cut = next((row for row in rows if all(text(row[name]) == said[name] for name in names)), None)
    if cut is None:
        raise LookupError("the cut is not kept")
    yield from unlike("cut", {"commit_timestamp": text(cut["commit_timestamp"])}, said)
    entities, lags = said["entities"], {each["entity"]: each for each in cut["lagging"] or ()}
    named = {path: each["version"] for of in entities.values() for path, each in of["tables"].items()}
    if dict(cut["tables"]) != named:
        yield "cut: it names other tables or versions than the certificate"
    audits = list(rows_of(warehouse, "audits")) if (warehouse / "audits").is_dir() else []
    for entity, of in entities.items():
        lag = lags.get(entity) and {name: text(lags[entity][name]) for name in ("position", "as_of", "reason")}
        until = [row for row in audits if row["entity_name"] == entity and row["audited_at"] <= cut["applied_at"]]
        last = max(until, key=lambda row: row["audited_at"], default=None)
        audit = last and {name: text(each) for name, each in last.items()}
        yield from unlike(entity, {"lags": lag, "last_audit": audit}, of)


def resume_differences(warehouse, channel, said):
    """Yield what the log of `raw_events` says otherwise of where a channel goes on: it has that as numbers, the bytes
    of a replay id by sevens. That version's log may have been cleaned up."""
    path, version = str(warehouse / "raw_events"), said["version"]
    yield from other_entry(warehouse, "raw_events", said)
    if version > DeltaTable(path).version():
        yield f"resume: raw_events has no version {version}"
    try:
        number = DeltaTable(path, version=version).transaction_version
    except DeltaError:
        return
    length, replay_id = number(f"{channel}#replay_id") or 0, b""
    for start in range(0, length, 7):
        replay_id += number(f"{channel}#replay_id/{start // 7 + 1}").to_bytes(min(7, length - start), "big")
    found = {"position": number(channel) or 0, "complete_position": number(f"{channel}#complete") or 0}
    yield from unlike("resume", {**found, "replay_id": replay_id.hex() or None}, said)


def main(warehouse, certificate=None):
    """Print what is wrong; return the exit code."""
    warehouse = Path(warehouse)
    file = Path(certificate) if certificate else max((warehouse / "certificates").glob("*.json"))
    read = json.loads(file.read_text("utf-8"))
    wrong, gone = list(chain(warehouse / "certificates", read)), []

    def look(differences, name, *said):
        try:
            wrong.extend(differences(warehouse, *said))
        except (OSError, LookupError, DeltaError, pa.ArrowException) as error:
            gone.append(f"{name}: cannot be read any more ({type(error).__name__}: {error})")

    for cut in read["cuts"]:
        channel, resume = cut["channel"], cut["resume"]
        look(cut_differences, f"{channel} at position {cut['position']}", cut)
        if resume is not None:
            look(resume_differences, "raw_events", channel, resume)
        elif channel != "/poll/objects":
            wrong.append("resume: it is missing")
        for entity, of_entity in cut["entities"].items():
            for name, said in of_entity["tables"].items():
                look(table_differences, f"{name}, version {said['version']}", name, said)
            look(entity_differences, entity, entity, of_entity)
    print(*wrong, *gone, sep="\n")
    print(f"certificate {read['number']}", "does not hold" if wrong else "cannot be checked" if gone else "holds")
    return 3 if wrong else 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
