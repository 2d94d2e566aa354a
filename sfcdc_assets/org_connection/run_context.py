"""What is the same for all that one run does: its warehouse, settings, id, Spark and, where it asks one, its org.

It is made where a run begins (a step of Dagster, a command, a test) and handed down as one argument. Two things are not
in it, because they belong to the process: the clock (`runtime/clock`), which all threads share, and the observers of
progress (`runtime/progress`), as Dagster gives its resources by configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.settings.settings import Settings

if TYPE_CHECKING:  # who only looks at tables needs neither Spark nor the client of REST, which are slow to import
    from pyspark.sql import SparkSession

    from sfcdc_assets.org_connection.org_connection import OrgConnection


def no_spark() -> SparkSession:
    """Take the place of Spark in a run that applies nothing and rewrites no file. Raises `AssertionError`."""
    raise AssertionError("this run has no Spark")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunContext:
    """A run over the tables of a warehouse; `dataclasses.replace` gives the same run over other tables.

    `run_id` is what its rows and commits name. `spark` gives the session, one thread at a time: the same one each time,
    and another one after it was lost (`spark_is_lost`).
    """

    warehouse: Warehouse
    settings: Settings
    run_id: str = ""
    spark: Callable[[], SparkSession] = no_spark
    spark_is_lost: Callable[[], bool] = lambda: False

    @cached_property
    def privacy(self) -> Privacy:
        """Which columns reach no table, and which only as hashes."""
        return Privacy.of(self.settings)


@dataclass(frozen=True, kw_only=True, eq=False)
class OrgRunContext(RunContext):
    """A run that asks the org of its settings too."""

    org: OrgConnection

    @classmethod
    def of(cls, run: RunContext, org: OrgConnection) -> OrgRunContext:
        """Return the same run, with an org."""
        return cls(**{each.name: getattr(run, each.name) for each in fields(RunContext)}, org=org)
