"""The transaction versions that a table's log has, all at once, and whether its schema may have changed.

Delta-rs goes through the log again for each question about one application, and a plan asks some twenty of each entity.
Here the log is gone through once, from its last checkpoint on, and from then on only what was committed since. Of forms
of the log that delta-rs does not write nothing is derived; delta-rs is asked then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

Log = Callable[[], fs.FileSystem]
"""The file system rooted at a table."""

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
MOST_COMMITS = 300
"""After the last checkpoint; delta-rs writes one with every hundredth commit."""
AT_ONCE = 16
"""Commits that an object store is asked for at once."""


@dataclass(frozen=True)
class Replayed:
    """The log up to a version. `transactions`: application -> its last version. `layout`: the version since which the
    schema is certainly the same."""

    version: int
    layout: int
    transactions: Mapping[str, int] = field(default_factory=dict)

    def followed_by(self, version: int, transactions: Mapping[str, int], *, changes_layout: bool = False) -> Replayed:
        """Return the versions with what was committed since."""
        return Replayed(version, version if changes_layout else self.layout, {**self.transactions, **transactions})


def commit_file(version: int) -> str:
    """Return the file of a commit, below its table."""
    return f"_delta_log/{version:020}.json"


def replay(log: Log, version: int, known: Replayed | None) -> Replayed | None:
    """Return the log up to a version, on from what is known of it; None where it cannot be known so."""
    try:
        store = log()
        if known is not None and 0 <= version - known.version <= MOST_COMMITS:
            found = _commits(store, known, version)
            if found is not None:
                return found
        begun = _checkpoint(store, version)
        return _commits(store, begun, version) if begun is not None else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _checkpoint(store: fs.FileSystem, version: int) -> Replayed | None:
    """Return what the last checkpoint has, or nothing if there is none."""
    with_news = Replayed(-1, layout=version)
    try:
        last = json.loads(_read(store, LAST_CHECKPOINT))
    except FileNotFoundError:
        return with_news if version < MOST_COMMITS else None
    at = last["version"]
    if at > version or version - at > MOST_COMMITS or not {"parts", "v2Checkpoint"}.isdisjoint(last):
        return None
    with store.open_input_file(f"_delta_log/{at:020}.checkpoint.parquet") as file:
        rows = pq.ParquetFile(file).read(["txn.appId", "txn.version"])["txn"].drop_null().to_pylist()
    transactions = {row["appId"]: row["version"] for row in rows if row["appId"] is not None}
    return Replayed(at, layout=version, transactions=transactions)


def _commits(store: fs.FileSystem, begun: Replayed, version: int) -> Replayed | None:
    """Read the commits on from there; None where a commit is not there any more."""
    transactions: dict[str, int] = {}
    changes_layout = False
    try:
        for text in _texts(store, [commit_file(number) for number in range(begun.version + 1, version + 1)]):
            for line in text.splitlines():
                changes_layout = changes_layout or b'"metaData"' in line or b'"protocol"' in line
                if b'"txn"' in line and (noted := json.loads(line).get("txn")) is not None:
                    transactions[noted["appId"]] = noted["version"]
    except FileNotFoundError:
        return None
    return begun.followed_by(version, transactions, changes_layout=changes_layout)


def _texts(store: fs.FileSystem, paths: list[str]) -> Iterable[bytes]:
    if len(paths) < 2 or isinstance(store, fs.SubTreeFileSystem):
        return (_read(store, path) for path in paths)
    return _side_by_side(store, paths)


def _side_by_side(store: fs.FileSystem, paths: list[str]) -> Iterator[bytes]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield from threads.map(lambda path: _read(store, path), paths)


def _read(store: fs.FileSystem, path: str) -> bytes:
    with store.open_input_file(path) as file:
        content: Any = file.read()
    return bytes(content)


def stored_as(name: str) -> Any:
    """Return a field of a number, 0 at first, whose transaction version has another name than the field: that of a
    release which called it otherwise."""
    return field(default=0, metadata={"stored_as": name})


def stored_names(cls: Any) -> dict[str, str]:
    """Field of a dataclass -> name of its transaction version."""
    return {each.name: each.metadata.get("stored_as", each.name) for each in fields(cls)}


_BYTES = 7
"""In one number: a transaction version is a positive int64."""


def numbers_of(name: str, value: bytes) -> dict[str, int]:
    """Return bytes as transaction versions: their length, then the bytes by sevens, the first being the highest of a
    number."""
    parts = [value[start : start + _BYTES] for start in range(0, len(value), _BYTES)]
    numbers = {f"{name}/{index}": int.from_bytes(part, "big") for index, part in enumerate(parts, 1)}
    return {name: len(value)} | numbers


def bytes_of(name: str, number: Callable[[str], int]) -> bytes:
    """Return the bytes, from the numbers of their parts."""
    length = number(name)
    lengths = [min(length - start, _BYTES) for start in range(0, length, _BYTES)]
    return b"".join(number(f"{name}/{index}").to_bytes(size, "big") for index, size in enumerate(lengths, 1))
