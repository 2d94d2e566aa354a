"""A life in which nothing happens but what a test does, step by step: the real org, client and tables, no Spark, and a
clock that only the test and the client's own pauses move."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.object_file import built_in_definitions
from sfcdc_assets.emulator.org_life import LifeMix
from sfcdc_assets.emulator.settings import OrgSettings
from sfcdc_assets.pipeline.entities import entity_channels
from sfcdc_assets.pipeline.landing import Lander
from sfcdc_assets.pipeline.snapshot import SnapshotReport, take_snapshot
from sfcdc_assets.pipeline.stale_reads import longest_lag_ms
from sfcdc_assets_tests.pipeline.lives import CHANNEL, SETTLE, Life, opened
from sfcdc_assets_tests.pipeline.lives_in_process import Handles, with_roots_read_once, without_spark
from sfcdc_assets_tests.pipeline.lives_plan import Plan
from sfcdc_assets_tests.pipeline.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.oracle import Rows, assert_same_rows, expected_rows

VISIBILITY = 2.0
LONGEST_LAG_MS = longest_lag_ms(VISIBILITY)
ENTITY = "Account"
STATE = f"current_state/{ENTITY}"
LEDGER = f"gap_reconciliation/{ENTITY}"


class QuietLife(Life):
    """The pipeline over one object."""

    def settings(self, **changed: object) -> None:
        """Change settings of the org."""
        self.org.settings = replace(self.org.settings, **changed)

    def catch_up(self) -> None:
        """A run; no snapshot."""
        self._catch_up(entity_channels(self.warehouse, [CHANNEL], (), self._connected.members))

    def snapshot(self) -> SnapshotReport:
        """Take one, pinned to all that has landed."""
        lander = Lander(self.warehouse, self._connected, clock_ms=self.clock)
        landed = lander.land(CHANNEL, settle=SETTLE, budget=20.0).position
        return take_snapshot(
            self.warehouse,
            self._connected,
            ENTITY,
            CHANNEL,
            lambda _: landed,
            spark=self._session,
            clock_ms=self.clock,
            lag_ms=LONGEST_LAG_MS,
        )

    def ids(self) -> list[str]:
        """Ids of the live records."""
        return [str(record["Id"]) for record in self.org.records(ENTITY)]

    def update(self, record_id: str, **values: object) -> None:
        """One record in a transaction of its own."""
        with self.org.transaction() as work:
            work.update(ENTITY, record_id, values)

    def rows(self) -> Rows:
        """`current_state` by Id."""
        return {row["Id"]: row for row in rows_of(self.warehouse, STATE)}

    def version(self) -> int:
        """Of `current_state`."""
        return DeltaTable(self.warehouse.uri(STATE)).version()

    def rows_since(self, version: int) -> Iterator[Rows]:
        """The rows of each later version of `current_state`: what a reader could have seen."""
        for number in range(version + 1, self.version() + 1):
            yield {row["Id"]: row for row in rows_of(self.warehouse, STATE, number)}

    def in_doubt(self) -> set[str]:
        """Ids of the rows that are marked."""
        return {record_id for record_id, row in self.rows().items() if row["_in_doubt"]}

    def open_doubts(self) -> dict[str, dict[str, Any]]:
        """Those of the ledger, by record id."""
        return {row["record_id"]: row for row in rows_of(self.warehouse, LEDGER) if row["status"] == "open"}

    def assert_equal(self) -> None:
        """Nothing is in doubt and the table is the org."""
        assert (self.open_doubts(), self.in_doubt()) == ({}, set())
        assert_same_rows(ENTITY, self.rows(), expected_rows(self.org, ENTITY))


@contextmanager
def quiet(folder: Path, patch: pytest.MonkeyPatch, *objects: ObjectDefinition, records: int = 6) -> Iterator[QuietLife]:
    """One that was never synced, over the accounts of the built-in org or over an object of the test's own."""
    with_roots_read_once(patch)
    Handles().install(patch)
    without_spark(patch, Random(1))
    chosen = objects or tuple(each for each in built_in_definitions() if each.name == ENTITY)
    plan = Plan(1, chosen, OrgSettings(), LifeMix(), 0.0, (), records, VISIBILITY)
    with opened(plan, folder / "warehouse", folder, kind=QuietLife) as life:
        assert isinstance(life, QuietLife)
        yield life
