"""Notes: small files of the warehouse beside its tables, each written whole in the place of the one before.

For what a process must leave behind for others and what is no row of a table: nothing of a table depends on one.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import FROM_STORE, reason_of
from sfcdc_assets.lake.warehouse import Warehouse


def put_note(warehouse: Warehouse, path: str, content: pa.Buffer | bytes) -> None:
    """Write a note, or replace it: whoever reads it finds the old one or the new one. Raises `WarehouseNotWritable`,
    `StoreRefused` and `StoreUnavailable`."""
    with note_refusals(warehouse):
        if not warehouse.is_local:
            with warehouse.filesystem("").open_output_stream(path) as sink:
                sink.write(content)
            return
        size = len(content) if isinstance(content, bytes) else content.size
        file = warehouse.folder / path
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(file.parent).free < size:
            file.unlink(missing_ok=True)  # what it takes up was for this one
            if shutil.disk_usage(file.parent).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = file.with_suffix(f".{os.getpid()}.new")
        try:
            written.write_bytes(content)
            written.replace(file)
        finally:
            written.unlink(missing_ok=True)


def read_note(warehouse: Warehouse, path: str) -> bytes | None:
    """Return what a note says; None where there is none. Raises `WarehouseNotWritable`, `StoreRefused` and
    `StoreUnavailable`."""
    with (
        suppress(FileNotFoundError),
        note_refusals(warehouse),
        warehouse.filesystem("").open_input_file(path) as file,
    ):
        return bytes(file.read())
    return None


def remove_note(warehouse: Warehouse, path: str) -> None:
    """Remove a note, if there is one. Raises what `put_note` raises."""
    with suppress(FileNotFoundError), note_refusals(warehouse):
        warehouse.filesystem("").delete_file(path)


@contextmanager
def note_refusals(warehouse: Warehouse) -> Iterator[None]:
    """Raise what a disk or a store answers instead of doing it, as an error of ours; that there is no note, as it
    is."""
    try:
        with store_refusals(warehouse.root):
            yield
    except FileNotFoundError:
        raise
    except FROM_STORE as error:
        raise WarehouseNotWritable(warehouse.root, reason_of(error)) from error
