"""The connection to the Pub/Sub API: one gRPC channel over TLS, made on first use, and its unary calls.

Never made at import: a channel does not survive a fork (docs/salesforce-streams.md, "Failures seen in the field").
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import certifi
import grpc
import tenacity

from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.streams.backoff import Backoff
from sfcdc_assets.streams.errors import TransportError
from sfcdc_assets.streams.pubsub.credentials import Credentials, GetCredentials
from sfcdc_assets.streams.pubsub.errors import PubSubUnavailable, SchemaNotFound, TokenExpired, refused
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc

log = logging.getLogger(__name__)

__all__ = ["Credentials", "PubSubConnection", "TopicInfo"]

UNARY_DEADLINE_SECONDS = 20.0
_SILENT = grpc.StatusCode.DEADLINE_EXCEEDED.name
"""Who waits for a call that ended so has heard nothing for as long."""

SCHEMAS_AT_ONCE = 16
"""Calls for schemas that are open beside each other: a schema takes a round trip, and a channel may name hundreds."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 32 * 1024 * 1024),  # the service keeps to 3 MB; the default is 4
    ("grpc.keepalive_time_ms", 60_000),  # pings more often than every 30 s are answered with GOAWAY
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # A channel rebuilt must not inherit the old one's broken connection and its growing pauses.
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(frozen=True)
class TopicInfo:
    """A topic as the org describes it. `schema_id` is the newest, blank for a channel of several entities."""

    topic_name: str
    tenant_guid: str
    can_subscribe: bool
    schema_id: str


class PubSubConnection:
    """One channel to `endpoint` (`host:port`), a context manager. Threads may share it: its
    unary calls are made one after another.

    `credentials(refresh)` returns the current token, or a fresh one when `refresh` is true. It is asked for every
    call, and for a fresh one after an authentication error; a second error with the fresh one is final.
    `ca_file` is an extra root certificate (PEM) beside the public ones.
    """

    def __init__(
        self,
        endpoint: str,
        credentials: GetCredentials,
        ca_file: Path | None = None,
        *,
        backoff: Backoff | None = None,
        deadline: float = UNARY_DEADLINE_SECONDS,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self.backoff = backoff or Backoff()
        self.sleep = sleep
        self._endpoint = endpoint
        self._credentials = credentials
        self._ca_file = ca_file
        self._deadline = deadline
        self._channel: Any = None
        self._lock = threading.RLock()

    def __enter__(self) -> PubSubConnection:
        return self

    def __exit__(
        self, exception: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the channel and cancel what runs on it. The next call makes a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def refresh_credentials(self) -> None:
        """Have a fresh token made for the calls that follow."""
        self._credentials(refresh=True)

    def get_topic(self, topic: str) -> TopicInfo:
        """Return the topic. Raises `TopicNotFound`, `TopicNotPermitted`, `AuthenticationRefused`,
        `PubSubUnavailable`."""
        return self._topic_info(self._retried("GetTopic", pb.TopicRequest(topic_name=topic), topic))

    def get_schema(self, schema_id: str) -> str:
        """Return the Avro schema as JSON. Raises `SchemaNotFound`, `AuthenticationRefused`, `PubSubUnavailable`."""
        reply: pb.SchemaInfo = self._retried("GetSchema", pb.SchemaRequest(schema_id=schema_id), schema_id)
        return reply.schema_json

    def get_schemas(self, schema_ids: Sequence[str]) -> dict[str, str]:
        """Return those of the schemas that could be had, by id; `SCHEMAS_AT_ONCE` are asked for at a time. What fails
        among them is asked for again alone, until one of those has failed again."""
        with self._lock:
            return self._side_by_side(schema_ids)

    def _side_by_side(self, schema_ids: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        failed: list[str] = []
        for start in range(0, len(schema_ids), SCHEMAS_AT_ONCE):
            metadata, get = self._credentials(refresh=False).metadata(), self._stub().GetSchema
            calls = {
                schema_id: get.future(pb.SchemaRequest(schema_id=schema_id), metadata=metadata, timeout=self._deadline)
                for schema_id in schema_ids[start : start + SCHEMAS_AT_ONCE]
            }
            for schema_id, call in calls.items():
                try:
                    found[schema_id] = call.result().schema_json
                except grpc.RpcError:
                    failed.append(schema_id)
        for schema_id in failed:
            try:
                found[schema_id] = self.get_schema(schema_id)
            except SchemaNotFound:
                continue
            except TransportError as error:  # what is about the login is raised: it may lead to another org
                log.warning("%s; %d schemas are asked for again later", error, len(schema_ids) - len(found))
                break
        return found

    def probe(self, topic: str, timeout: float) -> TopicInfo:
        """GetTopic, once and within `timeout` seconds: shows that the whole way to the service works."""
        return self._topic_info(self._once("GetTopic", pb.TopicRequest(topic_name=topic), topic, timeout))

    def open_stream(self, rpc: str, requests: Any) -> tuple[Any, str]:
        """Start a call that reads events, `Subscribe` or `ManagedSubscribe`; the call and the token it uses.

        It has no deadline: it stays open for days, and whoever reads it notices when it falls silent.
        """
        credentials = self._credentials(refresh=False)
        call = getattr(self._stub(), rpc)(requests, metadata=credentials.metadata())
        return call, credentials.access_token

    def _retried(self, rpc: str, request: Any, subject: str) -> Any:
        with self._lock:
            return self._tried_again(rpc, request, subject)

    def _tried_again(self, rpc: str, request: Any, subject: str) -> Any:
        refreshed = False

        def attempt() -> Any:
            nonlocal refreshed
            try:
                return self._once(rpc, request, subject, self._deadline)
            except TokenExpired as error:
                if refreshed:
                    raise error.final() from None
            refreshed = True
            self.refresh_credentials()
            try:
                return self._once(rpc, request, subject, self._deadline)
            except TokenExpired as error:
                raise error.final() from None

        def before_next(state: tenacity.RetryCallState) -> None:
            self.close()
            error = state.outcome.exception() if state.outcome else None
            if isinstance(error, PubSubUnavailable) and error.refusal.status == _SILENT:
                said = "The Pub/Sub API did not answer %s of %s within %.0f s; attempt %d follows."
                log.warning(said, rpc, subject, self._deadline, state.attempt_number + 1)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(PubSubUnavailable),
            stop=tenacity.stop_after_attempt(self.backoff.attempts),
            wait=lambda state: self.backoff.pause(state.attempt_number),
            before_sleep=before_next,
            sleep=self.sleep,
            reraise=True,
        )(attempt)

    def _once(self, rpc: str, request: Any, subject: str, timeout: float) -> Any:
        credentials = self._credentials(refresh=False)
        try:
            return getattr(self._stub(), rpc)(request, metadata=credentials.metadata(), timeout=timeout)
        except grpc.RpcError as error:
            refusal = refused(error, rpc=rpc, subject=subject, secret=credentials.access_token)
        raise refusal

    def _stub(self) -> Any:
        if self._channel is None:
            tls = grpc.ssl_channel_credentials(_root_certificates(self._ca_file))
            self._channel = grpc.secure_channel(self._endpoint, tls, options=CHANNEL_OPTIONS)
        return pb_grpc.PubSubStub(self._channel)  # type: ignore[no-untyped-call]

    @staticmethod
    def _topic_info(reply: pb.TopicInfo) -> TopicInfo:
        return TopicInfo(reply.topic_name, reply.tenant_guid, reply.can_subscribe, reply.schema_id)


def _root_certificates(ca_file: Path | None) -> bytes | None:
    """Return the public roots and `ca_file`; None (gRPC's own roots) without one."""
    if ca_file is None:
        return None
    try:
        extra = ca_file.read_bytes()
    except OSError as error:
        raise SettingsError("SFCDC_CA_FILE", f"{ca_file} cannot be read ({error.strerror})", _CA_REMEDY) from error
    if b"-----BEGIN CERTIFICATE-----" not in extra:
        raise SettingsError("SFCDC_CA_FILE", f"{ca_file} holds no PEM certificate", _CA_REMEDY)
    return Path(certifi.where()).read_bytes() + b"\n" + extra


_CA_REMEDY = "Name a file with the root certificate in PEM form, or leave the setting out"
