"""The files below a URI of an object store, each read, written or asked for by one request, many at once."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from os import getpid
from typing import Any, TypeVar

import obstore
import pyarrow as pa
from obstore.store import ObjectStore
from pyarrow import fs

from sfcdc_assets.lake.store.store_client import REFUSED, client_of, give_up, path_in_bucket
from sfcdc_assets.lake.store.store_options import TableFiles

T = TypeVar("T")

AT_ONCE = 64
"""Requests of a process that only ask whether there is a file."""
READ_AT_FIRST = 1024 * 1024
"""Bytes: what is not larger is read whole with the request that opens it."""


class StoreFiles(TableFiles):
    """Pickled with what opens the store. Its repr shows none of that.

    What the store's client is refused is asked of deltalake, whose answer, or error, counts.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri, self._options = uri, dict(options)
        self._prefix = path_in_bucket(uri)

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreFiles, (self._uri, self._options)

    @cached_property
    def _handler(self) -> Any:  # type: ignore[override]
        """deltalake's, made when it is needed."""
        return TableFiles(self._uri, self._options)._handler

    def get_type_name(self) -> str:
        """Return the name for messages."""
        return "object store"

    def normalize_path(self, path: str) -> str:
        """Names are as they are."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """Return the facts of each path. What may be a folder, by its name, is looked for as one."""

        def ask(client: ObjectStore) -> list[fs.FileInfo]:
            if len(paths) == 1:
                return [self._info(client, paths[0])]
            return list(_threads(getpid()).map(lambda path: self._info(client, path), paths))

        found = self._asked(ask, lambda: list(super(StoreFiles, self).get_file_info(list(paths))))
        folders = [
            path
            for path, info in zip(paths, found, strict=True)
            if info.type is fs.FileType.NotFound and _may_be_a_folder(path)
        ]
        listed = {path: super(StoreFiles, self).get_file_info([path])[0] for path in folders}
        return [listed.get(path, info) for path, info in zip(paths, found, strict=True)]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any place."""

        def ask(client: ObjectStore) -> pa.NativeFile:
            key = self._key(path)
            found = obstore.get(client, key, options={"range": (0, READ_AT_FIRST)})
            size, begin = found.meta["size"], pa.py_buffer(found.bytes())
            if size <= begin.size:
                return pa.BufferReader(begin)
            return pa.PythonFile(_Ranges(client, key, begin, size, otherwise), "r")

        def otherwise() -> pa.NativeFile:
            return super(StoreFiles, self).open_input_file(path)

        return self._asked(ask, otherwise)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading from its beginning."""
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.PythonFile:  # noqa: ARG002
        """Open a file for writing. It is there, whole, when it is closed."""
        return pa.PythonFile(_Sink(lambda content: self._put(path, content)), mode="w")

    def _put(self, path: str, content: bytes) -> None:
        def otherwise() -> None:
            with super(StoreFiles, self).open_output_stream(path) as sink:
                sink.write(content)

        def ask(client: ObjectStore) -> None:
            obstore.put(client, self._key(path), content)

        self._asked(ask, otherwise)

    def _info(self, client: ObjectStore, path: str) -> fs.FileInfo:
        try:
            found = obstore.head(client, self._key(path))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return fs.FileInfo(path, fs.FileType.File, mtime=found["last_modified"], size=found["size"])

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path.strip('/')}".strip("/")

    def _asked(self, ask: Callable[[ObjectStore], T], otherwise: Callable[[], T]) -> T:
        client = client_of(self._uri, self._options)
        if client is None:
            return otherwise()
        try:
            return ask(client)
        except FileNotFoundError:
            raise
        except REFUSED:
            pass
        found = otherwise()
        give_up(self._uri, self._options)
        return found


class _Ranges(io.RawIOBase):
    """A file that is larger: its beginning is at hand, the rest is read as it is asked for."""

    def __init__(
        self, client: ObjectStore, key: str, begin: pa.Buffer, size: int, otherwise: Callable[[], pa.NativeFile]
    ) -> None:
        self._client, self._object, self._begin, self._size = client, key, begin, size
        self._otherwise = otherwise
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, count: int | None = -1) -> bytes:
        end = self._size if count is None or count < 0 else min(self._size, self._at + count)
        start, self._at = self._at, max(self._at, end)
        if start >= end:
            return b""
        known = bytes(self._begin[start:end]) if start < self._begin.size else b""
        if start + len(known) == end:
            return known
        return known + self._rest(start + len(known), end)

    def _rest(self, start: int, end: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._client, self._object, start=start, end=end))
        except REFUSED:
            with self._otherwise() as file:
                file.seek(start)
                return bytes(file.read(end - start))


class _Sink(io.BytesIO):
    """Takes a file and gives it away when it is closed."""

    def __init__(self, give: Callable[[bytes], None]) -> None:
        super().__init__()
        self._give = give

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            self._give(content)


def _may_be_a_folder(path: str) -> bool:
    """Files have names with a dot, or lie in a log."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return "." not in name and not folder.endswith("_delta_log")


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return those of this process that wait for answers."""
    return ThreadPoolExecutor(AT_ONCE, "store")
