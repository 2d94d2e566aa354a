"""The HTTPS server of the emulated org: uvicorn in a thread of its own, on loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.applications import Starlette

from sfcdc_assets.emulator.errors import ServerStartError
from sfcdc_assets.emulator.serving.certificate import ServerCertificate
from sfcdc_assets.runtime.errors import PortInUseError

KEEPING_HEADER_NAMES: Mapping[str, Any] = {"http": "h11", "server_header": False, "date_header": False}
"""For uvicorn, whose faster implementation would write the names of headers in lower case."""
_START_SECONDS = 15.0
_GRACE_SECONDS = 0.4
_STOP_SECONDS = 5.0
_TICK_SECONDS = 0.1
"""How often uvicorn looks at its clock; every tenth time it writes the date again."""
_LOOK_SECONDS = 0.02
"""Between looks at requests that are being answered; also what the last bytes of an answer have to leave in."""


class RestServer:
    """Serves a Starlette application. The port is bound at construction, so a port in use is known before all else."""

    def __init__(self, app: Starlette, certificate: ServerCertificate, port: int = 0) -> None:
        """Bind the port, or any free one for 0. Raises PortInUseError."""
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", port))
        except OSError as error:
            self._socket.close()
            raise PortInUseError("the REST API", port) from error
        self.port: int = self._socket.getsockname()[1]
        self._server = PromptServer(
            uvicorn.Config(
                app,
                ssl_keyfile=str(certificate.key_file),
                ssl_certfile=str(certificate.chain_file),
                **KEEPING_HEADER_NAMES,
                log_level="warning",
                access_log=False,
                lifespan="off",
                # Clients poll every few seconds on one connection; the default of 5 s closes it under their requests.
                timeout_keep_alive=75,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True, name="rest"
        )

    def start(self) -> None:
        """Return when requests are answered. Raises ServerStartError."""
        self._thread.start()
        if not self._server.ready.wait(_START_SECONDS):
            raise ServerStartError("The REST API", _START_SECONDS)

    def stop(self) -> None:
        """Finish short requests, cut long ones and idle connections, and return; the port is free afterwards."""
        self._server.end()
        if self._thread.is_alive():
            self._thread.join(_GRACE_SECONDS)
            self._server.force_exit = True
            self._thread.join(_STOP_SECONDS)
        self._socket.close()


class PromptServer(uvicorn.Server):
    """Sets an event when it listens, and ends as soon as it may: uvicorn itself looks every tenth of a second whether
    it should, and tests start hundreds of servers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Finish what is being answered, and stop. From any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._ending.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, and say when it listens."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Tick as uvicorn does, and end as soon as it is asked to."""
        tick = 0
        while not await self.on_tick(tick % 10):
            tick += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close what listens and the connections at once."""
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while (self.server_state.connections or self.server_state.tasks) and not self.force_exit:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self.server_state.tasks:
                # All is answered; what is open are connections that their clients keep for another request.
                for connection in list(self.server_state.connections):
                    connection.transport.abort()
