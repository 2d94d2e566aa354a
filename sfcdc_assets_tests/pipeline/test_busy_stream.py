"""A stream that never rests: reading it ends, reads have their watermark to it, and the tables follow."""

from __future__ import annotations

from sfcdc_assets.emulator.traffic import TrafficGenerator
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline


def test_a_stream_that_never_rests_is_followed_without_waiting_for_its_end(pipeline: EmulatedPipeline) -> None:
    traffic = TrafficGenerator(pipeline.org, 11, bus=pipeline.server.bus)
    traffic.start(20)
    try:
        pipeline.sync()  # pytest ends a reading to a tip that never comes long before its 600 s are over
    finally:
        traffic.stop()
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
