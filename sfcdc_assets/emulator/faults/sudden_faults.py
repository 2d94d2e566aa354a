"""Faults of the org that happen at the moment they are armed."""

from __future__ import annotations

from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.serving.sessions import Sessions


def commit_sudden_faults(bus: EventBus, sessions: Sessions) -> None:
    """Commit those that are armed now, each as often as it is armed. Called whenever a fault is armed."""
    while bus.faults.take(Fault.INSTANCE_MOVE):
        bus.move()
    while bus.faults.take(Fault.REPLAY_IDS_EXPIRED):
        bus.expire()
    while bus.faults.take(Fault.TOKENS_EXPIRED):
        sessions.expire_all()
