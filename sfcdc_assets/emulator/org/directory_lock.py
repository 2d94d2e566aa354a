"""One process at a time has an org's folder: two would publish its events twice and hand out the same record ids."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from sfcdc_assets.emulator.errors import OrgInUseError


class DirectoryLock:
    """Held from construction to `release`, or until the process ends, however it ends: the kernel keeps the lock."""

    def __init__(self, directory: Path) -> None:
        """Make the folder if it is missing and lock its file `org.lock`. Raises OrgInUseError, OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._file = os.open(directory / "org.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip()
            self.release()
            raise OrgInUseError(directory, holder) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let others have the folder; harmless when repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __del__(self) -> None:
        self.release()
