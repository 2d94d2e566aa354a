"""A client of the Pub/Sub API of a served org that requests once and stays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2 as pb
from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.eventually import BOUND_SECONDS


@contextmanager
def subscribed(
    org: EmulatedOrg, server: EmulatorServer, topic: str, requested: int
) -> Iterator[list[pb.ConsumerEvent]]:
    """Inside, the stream is open; yields the events of its first response, the oldest of the topic. At the end the
    client goes, and the org knows it."""
    environment = server.client_environment()
    token = server.sessions.issue(org.users.integration)
    metadata = [
        ("accesstoken", token), ("instanceurl", environment["SFCDC_INSTANCE_URL"]), ("tenantid", org.organization_id)
    ]  # fmt: skip
    credentials = grpc.ssl_channel_credentials(server.ca_file.read_bytes())
    done = threading.Event()

    def requests() -> Iterator[pb.FetchRequest]:
        yield pb.FetchRequest(topic_name=topic, num_requested=requested, replay_preset=pb.ReplayPreset.EARLIEST)
        done.wait(BOUND_SECONDS)

    with grpc.secure_channel(server.pubsub_endpoint, credentials) as channel:
        call = pb_grpc.PubSubStub(channel).Subscribe(requests(), metadata=metadata, timeout=BOUND_SECONDS)
        yield list(next(call).events)
        done.set()
        for _ in call:
            pass
