"""Ports for servers that cannot be asked which one they took."""

from __future__ import annotations

from sfcdc_assets.cli.local_dagster.dagster_ui import free_port

__all__ = ["free_port", "free_ports"]


def free_ports(count: int) -> list[int]:
    """So many different ones on which nobody listens."""
    found = dict[int, None]()
    while len(found) < count:
        found[free_port()] = None
    return list(found)
