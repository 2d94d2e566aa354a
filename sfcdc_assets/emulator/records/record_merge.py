"""Merges: two or three records of one object become one (SOAP API Developer Guide, "merge()")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.ids import to_18

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.dml import Dml


def merge(work: Dml, entity: str, master_id: str, loser_ids: tuple[str, ...], *, reparent: bool = False) -> None:
    """Merge records into the master: losers go to the recycle bin with MasterRecordId set, the master is touched; with
    `reparent`, records that refer to a loser refer to the master. Raises RecordError."""
    master, *losers = _merged_ids(work, entity, master_id, loser_ids)
    for loser_id in losers:
        work.delete_into(entity, loser_id, master)
        if reparent:
            _reparent(work, entity, loser_id, master)
    work.update(entity, master, {})


def _reparent(work: Dml, entity: str, loser: str, master: str) -> None:
    for child, field in work.references_to(entity):
        if field.name != "MasterRecordId" and child.companion is None:
            for child_id in work.referring_ids(child.name, field.name, loser):
                work.set_read_only(child.name, child_id, {field.name: None if child_id == master else master})


def _merged_ids(work: Dml, entity: str, master_id: str, loser_ids: tuple[str, ...]) -> list[str]:
    """Return the 18-character ids, the master's first. Raises RecordError for records that cannot be merged."""
    if "MasterRecordId" not in work.fields(entity) or not 1 <= len(loser_ids) <= 2:
        raise RecordError("INVALID_OPERATION", f"{entity} records cannot be merged like this")
    try:
        ids = [to_18(record_id) for record_id in (master_id, *loser_ids)]
    except ValueError as error:
        raise RecordError("MALFORMED_ID", str(error)) from None
    if len(set(ids)) < len(ids):
        raise RecordError("INVALID_OPERATION", "the records of a merge must be different ones")
    for record_id in ids:
        if not work.is_live(entity, record_id):
            raise RecordError("ENTITY_IS_DELETED", "entity is deleted", status=404)
        if work.live_record(entity, record_id).get("IsPersonAccount"):
            raise RecordError("INVALID_OPERATION", "this org does not merge person accounts")
    return ids
