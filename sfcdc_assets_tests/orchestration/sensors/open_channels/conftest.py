"""A channel of an emulated org, and processes that evaluate its sensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.fixtures import no_settings_but_the_tests_own
from sfcdc_assets_tests.pipeline.stream import Stream, stream

__all__ = ["no_settings_but_the_tests_own"]


@pytest.fixture
def weather(tmp_path: Path) -> Iterator[Stream]:
    with stream(tmp_path) as opened:
        yield opened


@pytest.fixture
def start(weather: Stream) -> Iterator[Callable[[], CodeServer]]:
    with code_servers(weather) as start:
        yield start


@pytest.fixture
def server(start: Callable[[], CodeServer]) -> CodeServer:
    return start()
