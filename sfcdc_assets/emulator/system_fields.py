"""The fields that every record has: its id, whether it is deleted, who made and changed it and when."""

from __future__ import annotations

from typing import Any

from sfcdc_assets.emulator.object_definition import FieldDefinition


def system_field(name: str, label: str, type_: str, **facts: Any) -> FieldDefinition:
    """A field that nobody but the org sets, and that always has a value."""
    return FieldDefinition(
        name=name, label=label, type=type_, nillable=False, createable=False, updateable=False, **facts
    )


def audit_fields() -> tuple[FieldDefinition, ...]:
    """Those of who and when, in the order of describe."""
    by_user: dict[str, Any] = {"length": 18, "reference_to": ("User",)}
    return (
        system_field("CreatedDate", "Created Date", "datetime"),
        system_field("CreatedById", "Created By ID", "reference", relationship_name="CreatedBy", **by_user),
        system_field("LastModifiedDate", "Last Modified Date", "datetime"),
        system_field(
            "LastModifiedById", "Last Modified By ID", "reference", relationship_name="LastModifiedBy", **by_user
        ),
        system_field("SystemModstamp", "System Modstamp", "datetime"),
    )
