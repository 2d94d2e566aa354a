"""A Dagster instance of a test's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import pytest
from dagster._core.storage.event_log import in_memory as event_log
from dagster._core.storage.runs import in_memory as runs


@contextmanager
def instance_in_memory() -> Iterator[dg.DagsterInstance]:
    """One that ends with the block. Its databases are never migrated, so their revision is not noted in them, which
    takes longer than to make them."""
    with pytest.MonkeyPatch.context() as patch:
        for storage in (event_log, runs):
            patch.setattr(storage, "stamp_alembic_rev", lambda *_, **__: None)
        instance = dg.DagsterInstance.ephemeral()
    with instance:
        yield instance
