"""The fault `slow_network` of the Pub/Sub API: what is ready to be sent arrives later, by the org's clock.

gRPC gives a message to its client whole, so a client sees no more of a slow network than that.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

from sfcdc_assets.emulator.clock import Clock
from sfcdc_assets.emulator.faults import Fault, Faults


def arrival(clock: Clock, faults: Faults) -> int:
    """When what is ready now arrives (epoch ms by the org's clock)."""
    return clock() + round(float(faults.option(Fault.SLOW_NETWORK, "seconds", 5)) * 1000)


def hold_back(changed: Condition, clock: Clock, until: int, is_over: Callable[[], bool]) -> None:
    """Return at that time, or as soon as the call is over, of which `changed` is notified."""
    with changed:
        while not is_over() and (left := until - clock()) > 0:
            # A clock that is moved wakes everybody who waits on the bus.
            changed.wait(left / 1000)
