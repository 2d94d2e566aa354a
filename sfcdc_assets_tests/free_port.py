"""A port for a server that cannot be asked which one it took."""

from __future__ import annotations

import errno
import socket
from random import SystemRandom

PORTS = range(20_000, 32_000)
"""Below those that kernels give to sockets which ask for none in particular (from 32768 on with Linux, from 49152 on
elsewhere): until the server has bound it, no other process is given it by chance, as one found by port 0 may be."""
TRIES = 100


def free_port() -> int:
    """One of loopback on which nobody listens. Raises OSError when none was found."""
    for _ in range(TRIES):
        port = SystemRandom().choice(PORTS)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port in {PORTS.start} to {PORTS.stop - 1} after {TRIES} tries")


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    found = dict[int, None]()
    while len(found) < count:
        found[free_port()] = None
    return list(found)
