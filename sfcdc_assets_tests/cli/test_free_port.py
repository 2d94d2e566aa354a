"""The port of the Dagster UI: Dagster binds it seconds after it was chosen."""

from __future__ import annotations

import socket

import pytest

from sfcdc_assets.cli.local_dagster.dagster_ui import PORTS, free_port
from sfcdc_assets.runtime.errors import PortInUseError


def test_a_port_that_nobody_named_is_none_that_a_kernel_gives_away_until_dagster_has_bound_it() -> None:
    """Loopback connections of ten seconds took a port that was found by binding 0: the UI never came up."""
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] not in PORTS
    assert {free_port() for _ in range(20)} <= set(PORTS)


def test_a_port_that_was_named_is_taken_or_refused() -> None:
    named = free_port()
    assert free_port(named) == named
    with socket.create_server(("127.0.0.1", named)), pytest.raises(PortInUseError, match=str(named)):
        free_port(named)
