"""A channel of an emulated org, and a process that evaluates its sensor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers, start_caught_up
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import without_spark
from sfcdc_assets_tests.pipeline.stream import Stream, stream

__all__ = ["no_settings_but_the_tests_own"]


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path, records=6) as opened:
        yield opened


@pytest.fixture
def server(weather: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    """One whose tables equal the org."""
    without_spark(monkeypatch, Random(5))
    with code_servers(weather) as start:
        yield start_caught_up(start)
