"""What histories and shares hold of day-0 records: that each was created, and its owner's share."""

from __future__ import annotations

from collections.abc import Mapping

from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.records.companion_rows import Row, created_row, share_row, swapped

_BLOCK = 8
"""Ids of companions change places within so many."""


def populate_companions(org: OrgCore, after: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Write the rows of records whose ids are beyond `after`, by object; first and last id of each companion's."""
    added = {}
    for companion in org.definitions.values():
        link = companion.companion
        if link is None or link.parent not in after or link.kind is CompanionKind.FEED:
            continue
        rows = _rows(org, companion, after[link.parent])
        if rows:
            added[companion.name] = _insert(org, companion, rows)
    return added


def _rows(org: OrgCore, companion: ObjectDefinition, after: str) -> list[Row]:
    link = companion.companion
    assert link is not None
    parent = org.definitions[link.parent]
    rows = []
    for record in org.store.records(parent, include_deleted=False, fields=parent.stored_fields, after=after):
        if link.kind is CompanionKind.SHARE:
            stamps = {name: record.get(name) for name in ("LastModifiedDate", "LastModifiedById")}
            row = share_row(companion, link.parent_field, str(record["Id"]), record.get("OwnerId"))
        else:
            stamps = {name: record.get(name) for name in ("CreatedDate", "CreatedById")}
            row = {link.parent_field: record["Id"], **created_row()}
        rows.append({**stamps, **row})
    return rows


def _insert(org: OrgCore, companion: ObjectDefinition, rows: list[Row]) -> tuple[str, str]:
    # Whole blocks of ids, as later rows change places within theirs.
    first = -(-org.store.reserve(companion, len(rows) + 2 * _BLOCK) // _BLOCK) * _BLOCK
    names = [field.name for field in companion.stored_fields if field.name not in ("Id", "IsDeleted")]
    values = [
        (org.store.record_id(companion, swapped(first + number)), *(row.get(name) for name in names))
        for number, row in enumerate(rows)
    ]
    org.store.insert_rows(companion, ["Id", *names], values)
    ids = [str(row[0]) for row in values]
    return min(ids), max(ids)
