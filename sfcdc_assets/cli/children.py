"""The processes below this one, and their end: Spark's JVM, its Python daemon and workers.

Also a program of its own, `python children.py EXIT_CODE`: what a stopped command becomes, so it imports nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_SECONDS = 1.5
"""How long they may take to remove their temporary files after SIGTERM; then they are killed."""
LOOK_EVERY_SECONDS = 0.02


def end_children(grace: float = GRACE_SECONDS) -> None:
    """End every process below this one: asked first, killed after `grace` seconds. None is left when this returns."""
    _signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while descendants(os.getpid()) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SECONDS)
    # What they started meanwhile is found by looking again; a killed process starts nothing.
    while _signal(signal.SIGKILL) and time.monotonic() < deadline + grace:
        time.sleep(LOOK_EVERY_SECONDS)


def descendants(ancestor: int) -> list[int]:
    """Ids of the living processes below one, children before their own children."""
    below: dict[int, list[int]] = {}
    for pid, parent in _processes():
        below.setdefault(parent, []).append(pid)
    found, waiting = [], [ancestor]
    while waiting:
        children = below.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _signal(number: signal.Signals) -> bool:
    """Send it to every process below this one; whether there was any."""
    found = descendants(os.getpid())
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return bool(found)


def _processes() -> list[tuple[int, int]]:
    """Each living process and its parent; one that ended and was not waited for yet does not live."""
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        return [each for path in proc.iterdir() if path.name.isdigit() and (each := _from_proc(path))]
    # macOS; the process that lists them has ended by then.
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=False)
    rows = [line.split() for line in told.stdout.splitlines()]
    return [(int(pid), int(parent)) for pid, parent, state, *_ in rows if not state.startswith("Z")]


def _from_proc(path: Path) -> tuple[int, int] | None:
    try:
        # pid (name) state ppid ...: a name may hold spaces and parentheses.
        state, parent, *_ = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # it ended while we looked
    return None if state in ("Z", "X") else (int(path.name), int(parent))


if __name__ == "__main__":
    end_children()
    sys.exit(int(sys.argv[1]))
