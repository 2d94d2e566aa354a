"""Native memory of our own processes: its size does not grow with the threads that were at work in them, nor stay what
it once was.

Arrow (mimalloc), delta-rs and Polars (a jemalloc each) and the C library keep pools apart for many threads, and each of
the threads that answer the calls of a code server would leave some megabytes in each of them. What a task has freed
mimalloc keeps for long: packing a table took twice the memory with it.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from types import MappingProxyType

SETTINGS = MappingProxyType(
    {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "_RJEM_MALLOC_CONF": "narenas:1,tcache:false,dirty_decay_ms:1000,muzzy_decay_ms:0",
    }
)
"""Arrow allocates from the C library; Rust's libraries have one pool for all threads each and no caches beside it, and
give back what has been free for a second."""
ARENAS = 2
"""Pools of the C library; by default eight for each core."""
_M_ARENA_MAX = -8
"""The parameter of `mallopt` (malloc.h)."""


def keep_native_memory_small() -> None:
    """Call it before these libraries are imported, which read the settings when they are loaded; child processes
    inherit them. A person's own count. Where there is no GNU C library its part is left out."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(_M_ARENA_MAX, ARENAS)
