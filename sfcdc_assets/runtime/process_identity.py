"""Which process a number stands for.

Numbers begin again with a machine, and with a container that is started again: the one that a file names is then
another process's, or a thread's.
"""

from __future__ import annotations

import os
from pathlib import Path


def process_began(pid: int) -> int | None:
    """Return when it began, in a unit of the system's own: processes that had one number differ in it. None where
    there is no such process, or the system does not say; Linux does."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def is_there(pid: int, began: int | None) -> bool:
    """Return whether the process of that number is there, on this host, that began then. None, as where nobody says
    when: any of that number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return began is None or process_began(pid) in (None, began)
