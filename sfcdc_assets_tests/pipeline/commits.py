"""Commits as moments of a test: something happens just before the n-th commit that this process would make.

All commits of all tables count, the creation of a table too: what a process has done is what it has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.lake.delta.handles import HANDLES
from sfcdc_assets.lake.delta.table import Table


class Died(BaseException):
    """The process ended here."""


def die() -> None:
    """As by a kill: nothing that follows is done, and nobody hears of it."""
    raise Died


@dataclass
class Commits:
    """How many were begun, and the table of the one before which it happened, None while it has not."""

    begun: int = 0
    happened_at: str | None = None


@contextmanager
def before_commit(number: int, happens: Callable[[], None]) -> Iterator[Commits]:
    """Let something happen once, before the n-th commit from now on (counted from 1)."""
    commits = Commits()
    committing, create = Table._committing, DeltaTable.create

    def reached(name: str) -> None:
        if commits.happened_at is None:
            commits.begun += 1
            if commits.begun == number:
                commits.happened_at = name
                happens()

    def commit(table: Table, *arguments: Any) -> Any:
        reached(table.name)
        return committing(table, *arguments)

    def created(uri: str, *arguments: Any, **options: Any) -> DeltaTable:
        reached(uri)
        return create(uri, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "_committing", commit)
        patch.setattr(DeltaTable, "create", created)
        yield commits


@contextmanager
def another_memory() -> Iterator[None]:
    """As in another process: nothing is known of the tables that the present one has opened, and nothing is left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HANDLES, "_idle", type(HANDLES._idle)())
        yield
