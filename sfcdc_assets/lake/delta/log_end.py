"""Where a table's log ends, as files: by these alone it is known whether the table is as it was when it was looked at.

A version's commit is a file that is never written again, unless the table is removed and made again; the next version
is the next file. So a table has not changed for as long as the commit that it stood at is the very file it was, and no
later one is there. That is two questions about files, however old the table is, where opening it takes milliseconds; a
store that lists slowly is not listed. Whoever remembers anything of a table (a handle, an answer, what a tick saw) asks
this way whether it still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyarrow import fs

from sfcdc_assets.lake.delta.transaction_versions import commit_file

MISSING = -1
"""The version of a table that there is not."""


class File(NamedTuple):
    """Whether there is a file, when it was written (ns), and its size in bytes."""

    type: fs.FileType
    mtime_ns: int | None
    size: int | None


class LogEnd(NamedTuple):
    """A version, the file of its commit, and that of the next one, as they were found."""

    version: int
    commit: File
    following: File

    @property
    def is_newest(self) -> bool:
        """Whether the table stood at this version then, or was not there."""
        return self.following.type is fs.FileType.NotFound and (
            self.version == MISSING or self.commit.type is fs.FileType.File
        )


def ends_at(version: int, table: str = "") -> tuple[str, str]:
    """Return the paths of the two files that show whether a log ends at a version: the commits of this and of the next
    one. `table`: the table's path below the file system; by default the file system is rooted at it."""
    below = f"{table}/" if table else ""
    return f"{below}{commit_file(max(version, 0))}", f"{below}{commit_file(version + 1)}"


def facts_of(files: fs.FileSystem, paths: Sequence[str]) -> list[File]:
    """Return what is known of each file, all asked for at once. Raises `OSError` where that cannot be known."""
    return [File(info.type, info.mtime_ns, info.size) for info in files.get_file_info(list(paths))]
