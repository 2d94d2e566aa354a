"""The files of a folder that others work in meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def files_below(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path of each file below a folder, and what is known of it; what goes meanwhile is left out."""
    waiting = [str(folder)]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        yield entry.path, entry.stat(follow_symlinks=False)


def disk_use(folder: Path) -> tuple[int, int]:
    """Return the files below a folder, and their bytes."""
    sizes = [found.st_size for _, found in files_below(folder)]
    return len(sizes), sum(sizes)
