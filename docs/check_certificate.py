"""Check a certificate of `sfcdc certify` without sfcdc: `python check_certificate.py WAREHOUSE [CERTIFICATE]`.

Needs `pip install deltalake pyarrow`. docs/certificates.md specifies what is computed here. Exit code 0: it holds;
3: it does not; 1: it cannot be checked any more. The warehouse is a folder; one in an object store is copied first.
"""

import json
import struct
import sys
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


def rows_and_hash(table):
    """Return how many rows a version of a table has, and their hash."""
    rows = total = 0
    root = Path(unquote(table.table_uri.removeprefix("file://")))
    for uri in table.file_uris():
        path = Path(unquote(uri.removeprefix("file://")))
        for batch in pq.ParquetFile(path if path.is_absolute() else root / path).iter_batches(8192):
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


def differences(warehouse, name, said):
    """Yield what of a table is not as it is said."""
    table = DeltaTable(str(warehouse / name), version=said["version"])
    rows, digest = rows_and_hash(table)
    if rows != said["rows"]:
        yield f"{name}: it has {rows} rows, not {said['rows']}"
    elif digest != said["rows_sha256"]:
        yield f"{name}: its rows are not those of the certificate"
    entry = warehouse / name / "_delta_log" / f"{said['version']:020}.json"
    if (
        said["log_entry_sha256"]
        and entry.is_file()
        and sha256(entry.read_bytes()).hexdigest() != said["log_entry_sha256"]
    ):
        yield f"{name}: the log entry of version {said['version']} is another one"


def main(warehouse, certificate=None):
    """Print what is wrong; return the exit code."""
    folder = Path(warehouse) / "certificates"
    file = Path(certificate) if certificate else max(folder.glob("*.json"))
    read = json.loads(file.read_text("utf-8"))
    wrong, gone = list(chain(folder, read)), []
    for cut in read["cuts"]:
        for entity in cut["entities"].values():
            for name, said in entity["tables"].items():
                try:
                    wrong += differences(Path(warehouse), name, said)
                except (OSError, DeltaError, pa.ArrowException) as error:
                    gone.append(f"{name}: version {said['version']} cannot be read ({type(error).__name__}: {error})")
    print(*wrong, *gone, sep="\n")
    print(f"certificate {read['number']}", "does not hold" if wrong else "cannot be checked" if gone else "holds")
    return 3 if wrong else 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
