"""Rebuild an entity from the org: a new snapshot and the layers built from it take the place of all that there was.

As in `rebuild` all of it is built beside the present tables, the snapshot too: its columns are those of today's
settings, so nothing that may no longer be copied is carried over, and older versions are deleted at the end.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from sfcdc_assets.lake import current_state, snapshots
from sfcdc_assets.lake.beside import build_beside, open_if_readable
from sfcdc_assets.lake.checkpoint import Checkpoint
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.applying.change_of_channel import begin_on
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.org_reads.take_snapshot import take_snapshot
from sfcdc_assets.pipeline.org_reads.watermark import Watermarks
from sfcdc_assets.pipeline.rebuilding.rebuild import LAYERS, RebuildReport, applying, put_layers_in_place


def rebuild_from_org(
    warehouse: Warehouse,
    org: OrgConnection,
    entity: str,
    channel: str,
    spark: SparkSession,
    watermarks: Watermarks,
) -> RebuildReport:
    """Read the entity whole and put what is built from that in place; `history` begins again.

    The snapshot has its watermark after everything that has landed, so that no event before it is read again, be its
    file damaged. Raises what `take_snapshot` and `apply_entity` raise, before anything has changed.
    """
    beside = build_beside(warehouse, [f"{layer}/{entity}" for layer in (snapshots.LAYER, *LAYERS)])
    present = open_if_readable(warehouse, snapshots.name_of(entity))
    taken = Snapshots(present) if present else None
    first = begin_on(warehouse, entity, channel) if taken and not taken.has_watermark_on(channel) else 0
    take_snapshot(
        beside,
        org,
        entity,
        channel,
        lambda position: watermarks.of(channel, position),
        spark=lambda: spark,
        at_least=max(first, RawEvents.open(warehouse).given_out(channel)),
        numbered_after=_numbers(warehouse, entity, taken),
    )
    report = put_layers_in_place(beside, entity, channel, applying(spark, org.privacy, entity, channel))
    for name in beside.tables:
        table = open_if_readable(warehouse, name)
        if table is not None:
            table.forget_older_versions()
    return report


def _numbers(warehouse: Warehouse, entity: str, taken: Snapshots | None) -> tuple[int, int]:
    """The last snapshot and the last read-back that any table knows of."""
    state = open_if_readable(warehouse, current_state.name_of(entity))
    known = [(taken.last_number(), taken.last_read_back())] if taken else []
    applied = Checkpoint.of(state, channel="") if state else Checkpoint()
    known.append((applied.snapshot, applied.read_back))
    return max([0, *(number for number, _ in known)]), max([0, *(read_back for _, read_back in known)])
