"""`snapshot`: an entity read whole from the org, on day 0 and on demand."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import dagster as dg

from sfcdc_assets import clock
from sfcdc_assets.assets.channels import OWNERS
from sfcdc_assets.assets.each_entity import each_entity, log_materialization
from sfcdc_assets.assets.keys import SNAPSHOT_KEY
from sfcdc_assets.assets.run_scope import lander, run_scope
from sfcdc_assets.checks.refused_reads import report_refused_reads
from sfcdc_assets.config import load_settings
from sfcdc_assets.lake import snapshots
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.partitions import ENTITY
from sfcdc_assets.pipeline.applying.change_of_channel import begin_on
from sfcdc_assets.pipeline.entities import EntityState, entity_states
from sfcdc_assets.pipeline.landing.payload_retention import seen_by_retention
from sfcdc_assets.pipeline.org_reads.refused_reads import refused_reads
from sfcdc_assets.pipeline.org_reads.stale_reads import longest_lag_ms
from sfcdc_assets.pipeline.org_reads.take_snapshot import SnapshotReport, take_snapshot
from sfcdc_assets.pipeline.org_reads.watermark import Watermarks
from sfcdc_assets.resources.lake import LakeResource
from sfcdc_assets.resources.org import OrgResource
from sfcdc_assets.resources.spark import SparkResource
from sfcdc_assets.salesforce.view_all import Sight
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.table_metadata import Metadata, table_metadata

PROGRESS_SECONDS = 5.0
SAMPLE_ROWS = 5
_UNKNOWN_SIGHT = (
    "{entity}: the org does not tell whether the user sees all of its records, so only the thresholds "
    "SFCDC_VANISH_PERCENT and SFCDC_VANISH_ROWS protect its rows. Let the user read permission "
    "sets (View Setup and Configuration)."
)


@dg.multi_asset(
    name="snapshots",
    specs=[
        dg.AssetSpec(
            SNAPSHOT_KEY,
            description="The entity's rows as read by Bulk API 2.0, taken at a watermark of the stream: they stand for "
            "every event up to it. Read page by page; an interrupted snapshot goes on where it stopped.",
            group_name="landing",
            kinds={"deltalake", "salesforce"},
            owners=OWNERS,
            code_version="1",
            skippable=True,
        )
    ],
    partitions_def=ENTITY,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def snapshot(
    context: dg.AssetExecutionContext, lake: LakeResource, org: OrgResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult]:
    """Take the snapshots of the run's entities; one that fails does not stop the others."""
    warehouse, settings = lake.warehouse(), load_settings()
    with org.connect(warehouse) as connected, lander(context, warehouse, connected, settings) as landing:
        scope = run_scope(context, warehouse, settings, connected)
        watermarks = Watermarks(warehouse, landing, settings.visibility_seconds)

        def take(state: EntityState) -> None:
            first = 0
            if state.channel_changed:
                first = begin_on(warehouse, state.entity, state.channel)
                context.log.warning(f"{state.entity}: {state.channel} feeds it from now on, so it is read again")
            report = take_snapshot(
                warehouse,
                connected,
                state.entity,
                state.channel,
                lambda position: watermarks.of(state.channel, position),
                spark=lambda: spark.spark_session,
                at_least=first,
                on_page=_Progress(context.log.info),
                lag_ms=longest_lag_ms(settings.visibility_seconds),
            )
            if report.sight is Sight.UNKNOWN:
                context.log.warning(_UNKNOWN_SIGHT.format(entity=state.entity))
            context.log.info(_described(report))
            log_materialization(context, SNAPSHOT_KEY, state.entity, snapshot_metadata(warehouse, report))

        states = entity_states(warehouse, scope.entities)
        states = seen_by_retention(warehouse, states, settings.payload_retention_days, clock.now_ms())
        refused = refused_reads(warehouse, scope.entities)
        try:
            each_entity(context, [state for state in states if state.needs_snapshot or not scope.touched_only], take)
        finally:
            if refused or refused_reads(warehouse, scope.entities):
                report_refused_reads(context.instance, warehouse)
    yield from ()


def snapshot_metadata(warehouse: Warehouse, report: SnapshotReport) -> Metadata:
    """How the snapshot was read, its watermark, and a sample of its rows."""
    name = snapshots.name_of(report.entity)
    table = Snapshots.open(warehouse, report.entity)
    assert table is not None
    description = {
        key: value for key, value in asdict(report).items() if key not in ("rows", "entity", "seconds", "sight")
    }
    return {
        **description,
        "seconds": round(report.seconds, 3),
        "user_sees": report.sight.value,
        **table_metadata(warehouse.uri(name), name, report.rows, table.table.schema, table.sample(SAMPLE_ROWS)),
    }


class _Progress:
    """Tells the progress of a long read, not of every page."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __call__(self, progress: SnapshotProgress) -> None:
        if time.monotonic() >= self._next:
            of = f" of {progress.rows_expected}" if progress.rows_expected else ""
            self._tell(f"{progress.entity}: {progress.rows_done}{of} rows read, {progress.pages_done} pages")
            self._next = time.monotonic() + PROGRESS_SECONDS


def _described(report: SnapshotReport) -> str:
    how = "went on with" if report.resumed else "read"
    return (
        f"{report.entity}: {how} snapshot {report.number}, {report.rows} rows in {report.pages} pages, watermark at "
        f"position {report.position} of {report.channel}, {report.calls} API requests, {report.seconds:.1f} s"
    )
