"""Notes: small files of the warehouse beside its tables, each written whole in the place of the one before.

For what a process must leave behind for others and what is no row of a table: nothing of a table depends on one.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from sfcdc_assets.lake.errors import WarehouseNotWritable
from sfcdc_assets.lake.store.object_stores import store_refusals
from sfcdc_assets.lake.store.store_errors import FROM_STORE, reason_of
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

log = logging.getLogger(__name__)
T = TypeVar("T")


def put_note(warehouse: Warehouse, path: str, content: pa.Buffer | bytes) -> None:
    """Write a note, or replace it: whoever reads it finds the old one or the new one. A folder in its place is put
    aside. Raises `WarehouseNotWritable`, `StoreRefused` and `StoreUnavailable`."""
    with note_refusals(warehouse, path):
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
        written = file.with_suffix(f".{uuid.uuid4().hex}.new")  # threads of one process may write it at once
        try:
            written.write_bytes(content)
            if file.is_dir():
                _put_aside(file)
            written.replace(file)
        finally:
            written.unlink(missing_ok=True)


def read_note(warehouse: Warehouse, path: str) -> bytes | None:
    """Return what a note says; None where there is none, or a folder in its place. Raises `WarehouseNotWritable`,
    `StoreRefused` and `StoreUnavailable`."""
    if _is_folder(warehouse, path):
        return None
    with (
        suppress(FileNotFoundError),
        note_refusals(warehouse, path),
        warehouse.filesystem("").open_input_file(path) as file,
    ):
        return bytes(file.read())
    return None


def remove_note(warehouse: Warehouse, path: str) -> None:
    """Remove a note, if there is one. Raises what `put_note` raises."""
    if _is_folder(warehouse, path):
        return
    with suppress(FileNotFoundError), note_refusals(warehouse, path):
        warehouse.filesystem("").delete_file(path)


def put_json(warehouse: Warehouse, path: str, value: Any) -> None:
    """Write a note of JSON. Raises what `put_note` raises."""
    put_note(warehouse, path, json.dumps(value).encode())


def read_json(warehouse: Warehouse, path: str, of: Callable[[Any], T], otherwise: T) -> T:
    """Return what `of` makes of a note's JSON; `otherwise` where there is no note, or one of which it can make nothing.
    Raises what `read_note` raises."""
    noted = read_note(warehouse, path)
    try:
        return otherwise if noted is None else of(json.loads(noted))
    except (ValueError, TypeError, AttributeError, KeyError):
        return otherwise


@contextmanager
def failing_nothing(what: str) -> Iterator[None]:
    """Log what cannot be noted because the warehouse does not take it: the work that the note is about is done."""
    try:
        yield
    except SfcdcError as error:
        log.warning("It cannot be noted %s: %s", what, error)


def _is_folder(warehouse: Warehouse, path: str) -> bool:
    return warehouse.is_local and (warehouse.folder / path).is_dir()


def _put_aside(folder: Path) -> None:
    """Make room for a note where a folder stands, which is none of ours: a slip of a copy or a restore must not stop
    what the note is written for, nor may what it holds be lost."""
    aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.aside")
    folder.rename(aside)
    log.warning("%s was a folder where a note belongs, and is %s now. Remove it if nobody misses it.", folder, aside)


@contextmanager
def note_refusals(warehouse: Warehouse, path: str) -> Iterator[None]:
    """Raise what a disk or a store answers instead of doing it, as an error of ours; that there is no note, as it
    is."""
    try:
        with store_refusals(warehouse.root):
            yield
    except FileNotFoundError:
        raise
    except FROM_STORE as error:
        raise WarehouseNotWritable(warehouse.root, f"{path}: {reason_of(error)}") from error
