"""The warehouse's object store: what opens it, for tasks that read and write its files in other processes, and
whether it takes what this process writes.

deltalake takes the store's settings and credentials from the environment. That of a Spark worker is whatever its host
or its cluster manager gave it, so tasks bring those of the process that plans them (docs/scaling.md,
"Credentials on a cluster").
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from sfcdc_assets.lake.errors import StoreRefused
from sfcdc_assets.lake.store.object_stores import PREFIXES, refusal_of, scheme_of
from sfcdc_assets.lake.store.store_errors import reason_of

_PROBE_BOUNDS = {"max_retries": "2", "retry_timeout": "20s", "connect_timeout": "5s", "timeout": "20s"}
"""deltalake tries for minutes where a store does not answer."""
_TAKEN: set[tuple[str, int]] = set()
"""Stores that have taken a file from this process, and by which options."""


def storage_options(uri: str) -> dict[str, str]:
    """Return those of this process, for the store of a URI, as deltalake takes them. They are secrets: give them to the
    store's client, which shows them nowhere, and to nothing else."""
    prefix = PREFIXES.get(scheme_of(uri))
    return {name: value for name, value in os.environ.items() if prefix and name.startswith(prefix)}


class TableFiles(DeltaStorageHandler):
    """The files below a URI of an object store, pickled with what opens them. Its repr shows none of that."""

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        super().__init__(uri, dict(options))

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.PythonFile:
        """Open a file for writing."""
        return pa.PythonFile(_Sink(self._handler.open_output_stream(path, dict(metadata or {}))), mode="w")


class _Sink:
    """Takes what Arrow's writers give, which are buffers: deltalake's own stream wants bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: Any) -> int:
        written: int = self._stream.write(bytes(data))
        return written

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


def check_store(root: str) -> None:
    """Write a file below the root and delete it, once a process, before anything else is asked of the store. Raises
    `StoreRefused` and `StoreUnavailable`."""
    options = storage_options(root)
    asked = root, hash(frozenset(options.items()))
    if asked in _TAKEN:
        return
    name = f".{uuid.uuid4().hex}.probe"
    try:
        files = fs.PyFileSystem(TableFiles(root, {**options, **_PROBE_BOUNDS}))
        with files.open_output_stream(name) as sink:
            sink.write(name.encode())
        files.delete_file(name)
    except Exception as error:  # deltalake raises what its stores do, of several classes
        if refusal := refusal_of(root, error):
            raise refusal from None  # as `store_refusals`
        remedy = "Point it to a folder or an object store this process may write to."
        raise StoreRefused(root, reason_of(error), remedy) from error
    _TAKEN.add(asked)
