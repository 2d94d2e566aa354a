"""What the end of a code server does with the channels of its sensors."""

from __future__ import annotations

import threading

import pytest

from sfcdc_assets.code_server import ending
from sfcdc_assets.code_server.ending import EndingServer


class _Channels:
    def __init__(self) -> None:
        self.closed: list[bool] = []

    def close(self, *, lands: bool = False) -> None:
        self.closed.append(lands)


def test_what_is_on_its_way_is_landed_before_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    channels, closed_before_the_end = _Channels(), list[list[bool]]()
    monkeypatch.setattr(ending, "OPEN_CHANNELS", channels)
    monkeypatch.setattr(ending, "_end", lambda: closed_before_the_end.append(list(channels.closed)))
    monkeypatch.setattr(ending, "_end_at_last", lambda: None)
    server = object.__new__(EndingServer)  # without a port
    server._shutdown_once_executions_finish_event = threading.Event()
    server._execution_lock = threading.Lock()
    server._executions, server._termination_events = {}, {}
    server.cleanup()
    assert closed_before_the_end == [[True]]
