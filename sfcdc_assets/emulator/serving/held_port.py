"""A port of loopback that stays this process's own while nobody listens on it.

A free port that the system chose is, from the moment nobody has it, free for any other process: for a server that asks
for one, and as the local end of a connection. Where a server goes away and comes back, its clients know the address,
so nobody else may get it meanwhile.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port(port: int) -> Iterator[None]:
    """Keep the port of loopback from other processes while entered; connections to it are refused.

    Servers of this user that allow sharing (SO_REUSEADDR and SO_REUSEPORT; socket(7)) bind it meanwhile, so who comes
    back does it before leaving. Raises OSError where somebody has it already.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", port))
        yield
