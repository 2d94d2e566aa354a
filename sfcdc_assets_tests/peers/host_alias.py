"""A local alias for host names: an HTTP proxy that leads connections to Salesforce's hosts to a port of this machine.

Some clients have the login host built in. Asked to use this proxy, they find the emulated org there, whose certificate
is for those names; TLS is theirs from end to end.
"""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Collection

_CONNECT = re.compile(rb"CONNECT ([^: ]+):443 HTTP/1\.[01]\r\n")
_MAX_HEAD = 16_384


class HostAlias:
    """Serves inside a `with` block. Other hosts than `names` are refused: nothing leaves this machine."""

    def __init__(self, names: Collection[str], port: int) -> None:
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _handler(frozenset(names), port))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HostAlias:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(names: frozenset[str], port: int) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
                received = self.request.recv(4096)
                if not received:
                    return
                head += received
            asked = _CONNECT.match(head)
            if asked is None or asked.group(1).decode() not in names:
                self.request.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", port)) as org:
                self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_carry, args=(org, self.request), daemon=True)
                back.start()
                _carry(self.request, org)
                back.join()

    return Handler


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # one side has gone, and the other hears of it by its own read
