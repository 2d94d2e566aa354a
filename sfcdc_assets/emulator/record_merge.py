"""Which records a merge may merge."""

from __future__ import annotations

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.ids import to_18
from sfcdc_assets.emulator.object_definition import ObjectDefinition
from sfcdc_assets.emulator.store import RecordStore


def merged_ids(
    definition: ObjectDefinition, store: RecordStore, master_id: str, loser_ids: tuple[str, ...]
) -> list[str]:
    """The 18-character ids, the master's first. Raises RecordError for records that cannot be merged."""
    if "MasterRecordId" not in definition.fields_by_name or not 1 <= len(loser_ids) <= 2:
        raise RecordError("INVALID_OPERATION", f"{definition.name} records cannot be merged like this")
    try:
        ids = [to_18(record_id) for record_id in (master_id, *loser_ids)]
    except ValueError as error:
        raise RecordError("MALFORMED_ID", str(error)) from None
    if len(set(ids)) < len(ids):
        raise RecordError("INVALID_OPERATION", "the records of a merge must be different ones")
    for record_id in ids:
        if (store.stored(definition, record_id) or {}).get("IsPersonAccount"):
            raise RecordError("INVALID_OPERATION", "this org does not merge person accounts")
        if not store.exists(definition, record_id):
            raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
    return ids
