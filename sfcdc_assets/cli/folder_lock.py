"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfcdc_assets.errors import SfcdcError


class FolderInUse(SfcdcError):
    """Another process works in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"Another `sfcdc dev` runs in {folder}. End it, or choose another folder with --dir.")


class FolderNotUsable(SfcdcError):
    """The folder cannot be made or written."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        super().__init__(f"The folder {folder} cannot be used: {reason}. Choose another one with --dir.")


@contextmanager
def only_user_of(folder: Path) -> Iterator[None]:
    """Hold the folder, made if it is missing. Given back by the system when the process dies.

    Raises `FolderInUse` and `FolderNotUsable`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "dev.lock").open("w")
    except OSError as error:
        raise FolderNotUsable(folder, error.strerror or str(error)) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(folder) from error
        yield
