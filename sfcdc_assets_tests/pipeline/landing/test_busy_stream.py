"""A stream that never rests: reading it ends, reads have their watermark to it, and the tables follow."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline


@pytest.mark.timeout(300)  # a reading to a tip that never comes takes 600 s
def test_a_stream_that_never_rests_is_followed_without_waiting_for_its_end(pipeline: EmulatedPipeline) -> None:
    traffic = TrafficGenerator(pipeline.org, 11, bus=pipeline.server.bus)
    traffic.start(20)
    try:
        pipeline.sync()
    finally:
        traffic.stop()
    pipeline.sync()
    pipeline.assert_equal_to_the_org()
