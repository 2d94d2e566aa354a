"""The instance of Dagster that commands of this process work with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg


@contextmanager
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    """Yield the instance of DAGSTER_HOME, so that runs are seen in its UI; without one, an instance for this process.
    Whether Dagster collects usage statistics is a matter between its own commands and the user: here it neither does,
    nor explains itself in the middle of a sync."""
    if os.environ.get("DAGSTER_HOME"):
        with dg.DagsterInstance.get() as its_own:
            ref = its_own.get_ref()
        settings = {**ref.settings, "telemetry": {"enabled": False}}
        with dg.DagsterInstance.from_ref(ref._replace(settings=settings)) as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance
