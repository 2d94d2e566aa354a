"""What Spark's tasks are to do for one entity: the events that they decode, and the key ranges that they write."""

from __future__ import annotations

from sfcdc_assets.lake import current_state, history, raw_events, snapshots, text_fields
from sfcdc_assets.pipeline.applying.entity_tables import EntityTables
from sfcdc_assets.pipeline.applying.plan import BatchPlan
from sfcdc_assets.state.entity_batch import EntityBatch, EventRange, is_small
from sfcdc_assets.state.key_range_task import KeyRangeTask


def batch_tasks(tables: EntityTables, planned: BatchPlan) -> EntityBatch | None:
    """What tasks are to do, if anything."""
    batch, warehouse = planned.batch, tables.warehouse
    between = (batch.after, batch.read_to)
    event_files = tables.raw_events.files(tables.entity, tables.channel, *between) if batch.events else ()
    if not planned.visit and not event_files:
        return None
    events = EventRange(
        tables.channel,
        batch.after,
        batch.read_to,
        {file.path: file.size for file in event_files},
        warehouse.filesystem(raw_events.NAME),
        {schema.schema_id: schema.schema_json for schema in tables.schemas.of_entity(tables.entity)},
        batch.duplicates,
    )
    task = KeyRangeTask(
        columns=tables.columns,
        key_ranges=planned.key_ranges,
        batch=tables.checkpoint.batch + 1,
        filesystem=warehouse.filesystem(current_state.name_of(tables.entity)),
        texts=warehouse.filesystem(text_fields.name_of(tables.entity)),
        history=warehouse.filesystem(history.name_of(tables.entity)),
        reads=warehouse.filesystem(snapshots.name_of(tables.entity)),
        org_reads=planned.org_reads,
        read_back_taken=tuple(file.path for file in tables.taken.read_back_files()) if planned.read_backs else (),
        up_to=batch.up_to,
        roll_back_to=planned.roll_back_to,
        all_in_doubt=planned.all_in_doubt,
    )
    of_events = sum(file.size for file in event_files)
    of_pages = sum(file.size for snapshot in planned.snapshots for file in snapshot.files)
    small = is_small(batch.events, of_events, len(planned.touched))
    size = of_events + of_pages + _bytes_of_rows(tables, planned)
    return EntityBatch(tables.entity, events, task, planned.visit, planned.touched, is_shuffled=not small, bytes=size)


def _bytes_of_rows(tables: EntityTables, planned: BatchPlan) -> int:
    """Size of the key-range files that tasks read, and most of which they write again."""
    if tables.from_scratch:
        return 0
    files = tables.current_state.files()
    touched = (each for each in planned.key_ranges if each.number in planned.touched)
    return sum(files[path].size for path in {path for key_range in touched for path in key_range.files})
