"""Replay ids: 8 bytes of a big-endian counter and two zero bytes (docs/salesforce-streams.md, "Replay ids").

The counter is shared by everything on the bus, so ids of one topic are never contiguous and the newest id may be ahead
of the last event. How far it jumps follows from a seed.
"""

from __future__ import annotations

import hashlib

_TAIL = b"\x00\x00"


def replay_id(counter: int) -> bytes:
    """Return the 10 bytes a client receives."""
    return counter.to_bytes(8, "big") + _TAIL


def replay_counter(replay: bytes) -> int | None:
    """Return the counter of an id in its 10-byte form or cut to 8 bytes, as some clients send it; None if it is no
    id."""
    if len(replay) == 8 or (len(replay) == 10 and replay.endswith(_TAIL)):
        return int.from_bytes(replay[:8], "big")
    return None


def first_counter(seed: int) -> int:
    """Return where an org's counter starts: far from zero, as an org joins a bus that has long been running."""
    return 1_000_000 + _jump(seed, 0, 500_000)


def next_counter(seed: int, counter: int) -> int:
    """Return the counter after `counter`: usually near, now and then far ahead because other orgs share the bus."""
    far = _jump(seed, counter, 16) == 1
    return counter + _jump(seed, counter + 1, 2_000 if far else 5)


def _jump(seed: int, counter: int, at_most: int) -> int:
    digest = hashlib.blake2b(f"{seed}:{counter}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % at_most
