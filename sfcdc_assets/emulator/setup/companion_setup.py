"""Histories, shares and feeds that an administrator switches on while the org runs. Records that are there already have
none of before; no event says so."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.emulator.definitions.companions import companion_name, companion_of, tracked_object
from sfcdc_assets.emulator.definitions.object_access import CompanionKind
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.org_core import OrgCore


def track_fields(org: OrgCore, entity: str, names: Sequence[str]) -> ObjectDefinition:
    """Let an object have a history of these fields, and of no others; its history. Raises RecordError."""
    with org.database.transaction():
        org.replace_definition(tracked_object(_definition(org, entity), names))
        return add_companion(org, entity, CompanionKind.HISTORY)


def add_companion(org: OrgCore, entity: str, kind: CompanionKind) -> ObjectDefinition:
    """Return an object's companion, which is made if it is not there. Raises RecordError."""
    definition = _definition(org, entity)
    if not definition.is_written:
        raise RecordError("INVALID_OPERATION", f"{entity} has no {kind}")
    known = org.definitions.get(companion_name(definition, kind))
    if known is None:
        known = companion_of(definition, kind, {each.key_prefix for each in org.definitions.values()})
        org.replace_definition(known)
    return known


def _definition(org: OrgCore, entity: str) -> ObjectDefinition:
    if entity not in org.definitions:
        raise RecordError("NOT_FOUND", f"there is no object {entity}", status=404)
    return org.definitions[entity]
