"""A folder in memory for tests that write thousands of small files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A new one, of this test alone, below `tmp_path` where memory has no file system; removed at the end."""
    made = Path(tempfile.mkdtemp(prefix="sfcdc-", dir=_MEMORY if _MEMORY.is_dir() else tmp_path))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
