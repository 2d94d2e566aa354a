"""What the layers' materializations tell."""

import time

import pyarrow as pa

from sfcdc_assets.lake import consistent_cuts, current_state, gap_reconciliation, history, raw_events, text_fields
from sfcdc_assets.lake.consistent_cuts import Cut
from sfcdc_assets.lake.current_state import CurrentState
from sfcdc_assets.lake.gap_reconciliation import Ledger
from sfcdc_assets.lake.raw_events import RawEvents
from sfcdc_assets.lake.table import Table
from sfcdc_assets.lake.text_fields import TextFields
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.current_state import ApplyReport
from sfcdc_assets.pipeline.landing import LandingReport
from sfcdc_assets.pipeline.read_back import ReadBackReport
from sfcdc_assets.table_metadata import Metadata, lag_seconds, table_metadata

SAMPLE_ROWS = 5


def raw_events_metadata(warehouse: Warehouse, report: LandingReport, entity: str) -> Metadata:
    """What a poll brought for one entity, and the newest of its events (without payloads)."""
    events = RawEvents.open(warehouse)
    newest = events.newest(entity, report.channel, SAMPLE_ROWS)
    return {
        "channel": report.channel,
        "events_landed": report.events.get(entity, 0),
        "events_quarantined_in_channel": report.quarantined,
        "position": report.position,
        "complete_position": report.complete_position,
        "at_tip": report.at_tip,
        **table_metadata(
            warehouse.uri(raw_events.NAME), raw_events.NAME, events.count(entity), events.table.schema, newest
        ),
    }


def text_fields_metadata(warehouse: Warehouse, report: ApplyReport) -> Metadata:
    """How many values the batch added, and a sample of them."""
    table = TextFields.open_or_create(warehouse, report.entity).table
    sample = table.head(f"position <= {report.to_position}", SAMPLE_ROWS)
    name = text_fields.name_of(report.entity)
    return {
        "values_added": report.texts,
        "to_position": report.to_position,
        **table_metadata(warehouse.uri(name), name, table.count(), table.schema, sample),
    }


def gap_reconciliation_metadata(
    warehouse: Warehouse, report: ApplyReport, read: ReadBackReport | None, healed_after_seconds: float | None
) -> Metadata:
    """Doubts opened, healed and still open, and what the healing cost."""
    table = Ledger.open_or_create(warehouse, report.entity).table
    name = gap_reconciliation.name_of(report.entity)
    metadata: Metadata = {
        "doubts_opened": dict(report.doubts_opened),
        "doubts_healed": report.doubts_healed,
        "doubts_open": dict(report.open_doubts),
        "changes_waiting": report.waiting,
        **table_metadata(
            warehouse.uri(name), name, table.count(), table.schema, table.head("status = 'open'", SAMPLE_ROWS)
        ),
    }
    if read is not None:
        metadata |= {"records_asked_for": read.asked, "records_gone": read.gone, "api_requests": read.calls}
        if read.asked:
            metadata["api_requests_per_record"] = round(read.calls / read.asked, 3)
        if read.stale:
            metadata["reads_older_than_events"] = read.stale
        if read.error:
            metadata["read_back_failed"] = read.error
    if healed_after_seconds is not None:
        metadata["seconds_to_heal"] = round(healed_after_seconds, 1)
    return metadata


def history_metadata(warehouse: Warehouse, report: ApplyReport) -> Metadata:
    """How many versions the batch added, and a sample of its open ones."""
    table = Table.open(warehouse, history.name_of(report.entity))
    if table is None:
        return {}
    sample = table.head(f"_valid_to is null and _position <= {report.to_position}", SAMPLE_ROWS)
    name = history.name_of(report.entity)
    return {
        "versions_added": report.versions,
        "to_position": report.to_position,
        **table_metadata(warehouse.uri(name), name, table.count(), table.schema, sample),
    }


def consistent_cuts_metadata(warehouse: Warehouse, cut: Cut) -> Metadata:
    """The cut's place and the version of each table in it."""
    table = Table.open(warehouse, consistent_cuts.NAME)
    if table is None:
        return {}
    uri = warehouse.uri(consistent_cuts.NAME)
    return {
        "channel": cut.channel,
        "position": cut.position,
        "commit_timestamp": str(cut.commit_timestamp),
        "tables": dict(cut.tables),
        **table_metadata(uri, consistent_cuts.NAME, table.count(), table.schema),
    }


def current_state_metadata(warehouse: Warehouse, report: ApplyReport) -> Metadata:
    """What a batch did to the table, how far it is, and a sample of its newest rows."""
    name = current_state.name_of(report.entity)
    table = CurrentState.open(warehouse, report.entity)
    sample = table.newest_rows(SAMPLE_ROWS) if table else pa.table({})
    newest = sample["_commit_timestamp"][0].as_py() if sample.num_rows else None
    return {
        "channel": report.channel,
        "from_position": report.from_position,
        "to_position": report.to_position,
        "events": report.events,
        "duplicates": report.duplicates,
        "inserted": report.inserted,
        "updated": report.updated,
        "deleted": report.deleted,
        "waiting": report.waiting,
        "read_back": report.read_back,
        "leaves_written": report.leaves_written,
        "bytes_written": report.bytes_written,
        "delta_version": report.version,
        "snapshot": report.snapshot,
        **lag_seconds(newest, int(time.time() * 1000)),
        "seconds": round(report.seconds, 3),
        **table_metadata(warehouse.uri(name), name, report.rows, report.schema, sample),
    }
