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
from collections.abc import Iterable
from pathlib import Path

GRACE_SECONDS = 1.5
"""How long they may take to remove their temporary files after SIGTERM; then they are killed."""
LOOK_EVERY_SECONDS = 0.02


def end_children(grace: float = GRACE_SECONDS) -> None:
    """End every process below this one. None is left when this returns.

    Its own children are asked, and take theirs with them: a JVM whose workers went first would tell of it at length.
    What is there after `grace` seconds is killed.
    """
    me = os.getpid()
    known = set(descendants(me))  # one whose parent ends is no longer below this one

    def left() -> set[int]:
        living = {pid for pid, _ in _processes()}
        return (known & living) | set(descendants(me))

    _signal(signal.SIGTERM, [pid for pid, parent in _processes() if parent == me])
    deadline = time.monotonic() + grace
    while left() and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_SECONDS)
    # What they started meanwhile is found by looking again; a killed process starts nothing.
    while (remaining := left()) and time.monotonic() < deadline + grace:
        _signal(signal.SIGKILL, remaining)
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


def _signal(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _processes() -> list[tuple[int, int]]:
    """Each living process and its parent; one that ended and was not waited for yet does not live."""
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        return [each for path in proc.iterdir() if path.name.isdigit() and (each := _from_proc(path))]
    # macOS; the process that lists them has ended by then.
    description = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=False)
    rows = [line.split() for line in description.stdout.splitlines()]
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
