"""The Dagster instance of the ticks of a process, opened once.

Dagster opens one for each tick that asks for it (`SensorEvaluationContext.instance`), and each time reads all of its
schema's migrations to see whether the databases are up to date: 50 ms of a core, several times as much as all else that
a tick without news does, every five seconds. Dagster's daemon and its webserver keep theirs as well.
"""

from __future__ import annotations

import atexit
import threading

import dagster as dg
from dagster._core.instance.ref import InstanceRef

_OPENED: list[tuple[InstanceRef, dg.DagsterInstance]] = []
_OPENING = threading.Lock()


def instance_of(context: dg.SensorEvaluationContext) -> dg.DagsterInstance:
    """Return the instance of a tick: that which the context was given, as in tests, or the one that this process has
    opened for its reference, which stays open until the process ends."""
    ref = context.instance_ref
    if ref is None:
        return context.instance
    with _OPENING:
        found = next((instance for of, instance in _OPENED if of == ref), None)
        if found is None:
            found = dg.DagsterInstance.from_ref(ref)
            _OPENED.append((ref, found))
    return found


@atexit.register
def close_instances() -> None:
    """Close those that were opened; the next tick opens its own again."""
    with _OPENING:
        for _, instance in _OPENED:
            instance.dispose()
        _OPENED.clear()
