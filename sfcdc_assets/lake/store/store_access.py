"""Whether the object store of a warehouse takes what this process writes.

deltalake tries for minutes where a store does not answer. So the store is asked before anything else, with little
patience.
"""

from __future__ import annotations

import uuid

from pyarrow import fs

from sfcdc_assets.lake.errors import StoreRefused
from sfcdc_assets.lake.store.object_stores import refusal_of
from sfcdc_assets.lake.store.store_errors import reason_of
from sfcdc_assets.lake.store.store_options import TableFiles, storage_options

_BOUNDS = {"max_retries": "2", "retry_timeout": "20s", "connect_timeout": "5s", "timeout": "20s"}
_TAKEN: set[tuple[str, int]] = set()
"""Stores that have taken a file from this process, and by which options."""


def check_store(root: str) -> None:
    """Write a file below the root and delete it, once a process. Raises `StoreRefused` and `StoreUnavailable`."""
    options = storage_options(root)
    asked = root, hash(frozenset(options.items()))
    if asked in _TAKEN:
        return
    name = f".{uuid.uuid4().hex}.probe"
    try:
        files = fs.PyFileSystem(TableFiles(root, {**options, **_BOUNDS}))
        with files.open_output_stream(name) as sink:
            sink.write(name.encode())
        files.delete_file(name)
    except Exception as error:  # deltalake raises what its stores do, of several classes
        if refusal := refusal_of(root, error):
            raise refusal from None  # as `store_refusals`
        remedy = "Point it to a folder or an object store this process may write to."
        raise StoreRefused(root, reason_of(error), remedy) from error
    _TAKEN.add(asked)
