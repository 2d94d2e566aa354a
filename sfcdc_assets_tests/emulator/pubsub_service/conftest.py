"""Served orgs of a test, and one with the usual settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfcdc_assets.emulator.pubsub.stream_timing import StreamTiming
from sfcdc_assets_tests.emulator.pubsub_service.emulated import Emulated


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Emulated]]:
    served: list[Emulated] = []

    def start(**timing: float | bool) -> Emulated:
        served.append(Emulated(tmp_path, StreamTiming(**timing)))
        return served[-1]

    yield start
    for each in served:
        each.close()


@pytest.fixture
def emulated(serve: Callable[..., Emulated]) -> Emulated:
    return serve()
