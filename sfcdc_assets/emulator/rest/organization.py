"""The object Organization: one record that says which org this is and where it lives."""

from __future__ import annotations

from collections.abc import Iterable

from sfcdc_assets.emulator.object_file import object_definition
from sfcdc_assets.emulator.org import EmulatedOrg

ORGANIZATION = object_definition(
    {
        "name": "Organization",
        "label": "Organization",
        "key_prefix": "00D",
        "name_field": "Name",
        "fields": [
            {"Name": {"type": "string", "length": 80}},
            {"InstanceName": {"type": "string", "length": 5}},
            {"OrganizationType": {"type": "string", "length": 40}},
            {"IsSandbox": {"type": "boolean"}},
        ],
    },
    "Organization",
)


def organization_rows(org: EmulatedOrg) -> Iterable[dict[str, str | int | None]]:
    """The one row."""
    user = org.users.integration
    yield {
        "Id": org.organization_id,
        "Name": "Emulated org",
        "InstanceName": org.instance_name,
        "OrganizationType": "Developer Edition",
        "IsSandbox": int(org.settings.is_sandbox),
        "IsDeleted": 0,
        "CreatedDate": 0,
        "CreatedById": user,
        "LastModifiedDate": 0,
        "LastModifiedById": user,
        "SystemModstamp": 0,
    }
