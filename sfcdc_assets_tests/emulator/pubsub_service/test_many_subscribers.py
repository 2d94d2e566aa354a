"""Five hundred clients at once, as in an org whose events many systems follow."""

from __future__ import annotations

from contextlib import ExitStack

import grpc

from sfcdc_assets.streams.pubsub.proto import pubsub_api_pb2_grpc as pb_grpc
from sfcdc_assets_tests.emulator.pubsub_service.emulated import ALL, LATEST, Emulated, Stream
from sfcdc_assets_tests.eventually import eventually

SUBSCRIBERS, CONNECTIONS = 500, 5


def test_each_of_five_hundred_subscribers_gets_a_change(emulated: Emulated) -> None:
    credentials = grpc.ssl_channel_credentials(emulated.ca_file.read_bytes())
    with ExitStack() as stack:
        stubs = [
            pb_grpc.PubSubStub(
                stack.enter_context(
                    # A pool of its own: channels with the same options share a connection otherwise.
                    grpc.secure_channel(emulated.endpoint, credentials, [("grpc.use_local_subchannel_pool", 1)])
                )
            )
            for _ in range(CONNECTIONS)
        ]
        streams = [
            Stream(stubs[number % CONNECTIONS].Subscribe, emulated.metadata).request(1, ALL, LATEST)
            for number in range(SUBSCRIBERS)
        ]
        for each in streams:
            stack.callback(each.cancel)
        eventually(lambda: emulated.service.subscribed_streams == SUBSCRIBERS, "all streams to be begun")
        emulated.create(1)
        events = [each.events(1) for each in streams]
    assert {len(each) for each in events} == {1}
    assert len({each.event.id for (each,) in events}) == 1
