"""An org in which nothing happens but what a test does, and the pipeline that follows it step by step: the real
sockets, client and tables, one simulated clock, and neither Spark nor Dagster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from sfcdc_assets.apply.catch_up import ApplyListener, CatchUp
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.run_context import OrgRunContext, no_spark
from sfcdc_assets.org_reads.stale_reads import longest_lag_ms
from sfcdc_assets.org_reads.take_snapshot import SnapshotReport, ToCopy, take_snapshot
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets_tests.pipeline.oracle import Rows, assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.removed_layers import remove_layers
from sfcdc_assets_tests.pipeline.simulation.batches_in_process import with_roots_read_once, without_spark
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream
from sfcdc_assets_tests.run_contexts import run_on

VISIBILITY = 5.0
LONGEST_LAG_MS = longest_lag_ms(VISIBILITY)
ENTITY = "Account"
STATE = f"current_state/{ENTITY}"
LEDGER = f"gap_reconciliation/{ENTITY}"


class QuietPipeline:
    """The pipeline over one object."""

    def __init__(self, of: Stream) -> None:
        self._stream = of
        self.org, self.server, self.clock, self.warehouse = of.org, of.server, of.clock, of.warehouse
        self._running = 0
        """Runs, one in the midst of another."""

    @property
    def session(self) -> OrgSession:
        """The client's, with the org's REST side."""
        return self._stream.connected.session

    def settings(self, **changed: object) -> None:
        """Change settings of the org."""
        self.org.settings = replace(self.org.settings, **changed)

    def sync(self) -> None:
        """Day 0."""
        self.snapshot()
        self.catch_up()

    def catch_up(self) -> None:
        """A run; no snapshot."""
        self._running += 1
        try:
            with Poller(self.warehouse, self._stream.connected, SETTLE) as poller:
                known = {ENTITY: CHANNEL}
                CatchUp(self._run(), poller, known, known, ApplyListener(), every_entity=False).run()
        finally:
            self._running -= 1
            if not self._running:
                # A stream that the org holds to be open looks like the next run's, for which the clock would not wait.
                self._stream.wait_until_the_org_has_hung_up()

    def _run(self, spark: Callable[[], Any] = lambda: None) -> OrgRunContext:
        visible = VISIBILITY
        return run_on(self.warehouse, self._stream.connected, spark, visibility_seconds=visible, describe_seconds=0.0)

    def poll(self) -> int:
        """Land what there is, and return the last position."""
        return self._stream.poll_until_settled().position

    def snapshot(self, watermark_at: int | None = None, *, retypes: bool = False) -> SnapshotReport:
        """Take one, pinned to all that has landed or to an earlier position; only one that `retypes` columns needs
        Spark."""
        landed = self.poll() if watermark_at is None else watermark_at
        return take_snapshot(self._run() if retypes else self._run(no_spark), ToCopy(ENTITY, CHANNEL), lambda _: landed)

    def rebuild(self) -> None:
        """The layers were removed by hand."""
        remove_layers(self.warehouse, ENTITY)
        self.catch_up()

    def ids(self) -> list[str]:
        """Ids of the live records."""
        return [str(record["Id"]) for record in self.org.records(ENTITY)]

    def update(self, record_id: str, **values: object) -> None:
        """One record in a transaction of its own."""
        with self.org.transaction() as work:
            work.update(ENTITY, record_id, values)

    def rows(self) -> Rows:
        """`current_state` by Id, without the batch that wrote it, which is another one after a rebuild."""
        return {row["Id"]: {**row, "_batch": None, "_first_batch": None} for row in rows_of(self.warehouse, STATE)}

    def layers(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of each layer in an order of their own, without the batch that wrote them; of `history` those that
        are part of the tables."""
        rows = {layer: rows_of(self.warehouse, f"{layer}/{ENTITY}") for layer in ("current_state", "text_fields")}
        rows["history"] = versions_of(self.warehouse, ENTITY)
        return {
            layer: sorted([{**row, "_batch": None, "_first_batch": None} for row in found], key=str)
            for layer, found in rows.items()
        }

    def version(self) -> int:
        """Of `current_state`."""
        return DeltaTable(self.warehouse.uri(STATE)).version()

    def rows_since(self, version: int) -> Iterator[Rows]:
        """The rows of each later version of `current_state`: what a reader could have seen."""
        for number in range(version + 1, self.version() + 1):
            yield {row["Id"]: row for row in rows_of(self.warehouse, STATE, number)}

    def suspects(self) -> set[str]:
        """Ids of the rows that are marked."""
        return {record_id for record_id, row in self.rows().items() if row["_in_doubt"]}

    def open_suspects(self) -> dict[str, dict[str, Any]]:
        """Those of the ledger, by record id."""
        return {row["record_id"]: row for row in rows_of(self.warehouse, LEDGER) if row["status"] == "open"}

    def assert_equal(self) -> None:
        """Nothing is suspect and the table is the org."""
        assert (self.open_suspects(), self.suspects()) == ({}, set())
        assert_same_rows(ENTITY, self.rows(), expected_rows(self.org, ENTITY))


@contextmanager
def quiet(
    folder: Path, patch: pytest.MonkeyPatch, records: int = 6, warehouse: str | None = None
) -> Iterator[QuietPipeline]:
    """One with so many accounts that was never synced."""
    with_roots_read_once(patch)
    without_spark(patch, Random(1))
    with stream(folder, records=records, entities=[ENTITY], warehouse=warehouse) as of:
        yield QuietPipeline(of)
