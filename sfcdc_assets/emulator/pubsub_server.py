"""The gRPC server of the emulated org: TLS on loopback, one thread a call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc

from sfcdc_assets.emulator.certificate import ServerCertificate
from sfcdc_assets.emulator.pubsub_service import PubSubService
from sfcdc_assets.errors import PortInUseError
from sfcdc_assets.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc

_THREADS = 32
_STOP_SECONDS = 5
_OPTIONS = (
    # Without this a second server could share the port and take half of the calls, instead of failing to start.
    ("grpc.so_reuseport", 0),
    # Clients ping an idle stream; the default would answer a ping a minute with GOAWAY "too many pings".
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A publish request that is too large is refused as Salesforce's proxy does it, not as this library does.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


class PubSubServer:
    """Serves a `PubSubService`. At most 32 calls at a time: a Subscribe stream is one for as long as it is open."""

    def __init__(self, service: PubSubService, certificate: ServerCertificate, port: int = 0) -> None:
        """Bind the port, or any free one for 0. Raises PortInUseError."""
        self._service = service
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="pubsub")
        self._server = grpc.server(self._executor, options=_OPTIONS)
        pb_grpc.add_PubSubServicer_to_server(service, self._server)
        credentials = grpc.ssl_server_credentials([(certificate.key, certificate.chain)])
        try:
            self.port: int = self._server.add_secure_port(f"127.0.0.1:{port}", credentials)
        except RuntimeError as error:
            raise PortInUseError("the Pub/Sub API", port) from error

    def start(self) -> None:
        """Take calls from now on."""
        self._server.start()

    def stop(self) -> None:
        """Refuse new calls, cancel open ones and return when all have ended, well within a second."""
        stopped = self._server.stop(grace=None)
        self._service.stop()
        stopped.wait(_STOP_SECONDS)
        self._executor.shutdown(wait=False, cancel_futures=True)
