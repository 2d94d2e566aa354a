"""Streams of the emulated org that are quiet, idle, closed, cancelled or stopped."""

from __future__ import annotations

from collections.abc import Callable

import grpc

from sfcdc_assets_tests.emulator.pubsub_service.emulated import LATEST, Emulated
from sfcdc_assets_tests.eventually import eventually


def test_a_quiet_stream_gets_a_keepalive_that_names_the_newest_id_within_270_seconds(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(5)
    stream.events(1)
    for _ in range(2):
        eventually(lambda: emulated.service.next_due() == emulated.clock() + 270_000, "the stream to wait for that")
        emulated.clock.advance(270_000)
        keepalive = stream.next()
        assert len(keepalive.events) == 0
        assert keepalive.pending_num_requested == 4
        assert keepalive.latest_replay_id == emulated.bus.latest_replay_id()


def test_a_stream_with_nothing_requested_any_more_is_closed_normally_after_60_seconds(emulated: Emulated) -> None:
    emulated.create(1)
    stream = emulated.subscribe(1)
    stream.events(1)
    eventually(lambda: emulated.service.next_due() == emulated.clock() + 60_000, "the stream to wait for that")
    emulated.clock.advance(60_000)
    assert list(stream.responses) == []
    assert stream.responses.code() == grpc.StatusCode.OK


def test_the_idle_end_can_be_an_error(serve: Callable[..., Emulated]) -> None:
    emulated = serve(idle_is_error=True)
    emulated.create(1)
    stream = emulated.subscribe(1)
    stream.events(1)
    emulated.clock.advance(60_000)
    assert stream.error().code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_client_that_closes_its_side_ends_the_call(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    stream.half_close()
    assert list(stream.responses) == []
    assert stream.responses.code() == grpc.StatusCode.OK


def test_a_client_that_closes_its_side_at_once_gets_the_events_that_are_there(emulated: Emulated) -> None:
    emulated.create(7)
    stream = emulated.subscribe(5)
    stream.half_close()
    assert sum(len(response.events) for response in stream.responses) == 5
    assert stream.responses.code() == grpc.StatusCode.OK
    stream = emulated.subscribe(100)
    stream.half_close()
    assert sum(len(response.events) for response in stream.responses) == 7


def test_a_cancelled_stream_is_given_up_by_the_server(emulated: Emulated) -> None:
    stream = emulated.subscribe(5, preset=LATEST)
    eventually(lambda: emulated.service.subscribed_streams == 1, "the stream to be begun")
    stream.cancel()
    eventually(lambda: emulated.service.open_streams == 0, "the org to end the stream")


def test_stopping_ends_open_streams_and_waits_for_none_of_them(emulated: Emulated) -> None:
    streams = [emulated.subscribe(5, preset=LATEST) for _ in range(3)]
    eventually(lambda: emulated.service.subscribed_streams == 3, "the streams to be begun")
    emulated.server.stop()
    for stream in streams:
        assert stream.ended_by_the_server()
