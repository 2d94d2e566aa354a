"""What the client's user may do, as SOQL shows it: PermissionSet, PermissionSetAssignment and ObjectPermissions.

The user has two sets. One belongs to its profile and carries the user permission View All Data; the other was made for
readers of change events and lists each object. So a client has to look at all sets that are assigned, as it must with
Salesforce. See https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/object_reference/
sforce_api_objects_objectpermissions.htm
"""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets.emulator.rest.computed_objects import ComputedRow, audit_fields, computed_object
from sfcdc_assets.emulator.setup.record_visibility import WITHOUT_OBJECT_PERMISSIONS

_TEXT = {"type": "string"}
_TRUTH = {"type": "boolean"}
_PERMISSION_SET = computed_object(
    "PermissionSet",
    "0PS",
    {"Name": _TEXT, "Label": _TEXT, "ProfileId": _TEXT, "IsOwnedByProfile": _TRUTH, "PermissionsViewAllData": _TRUTH},
    "Name",
)
_ASSIGNMENT = computed_object(
    "PermissionSetAssignment",
    "0Pa",
    {
        "AssigneeId": {"type": "reference", "to": "User", "relationship": "Assignee"},
        "PermissionSetId": {"type": "reference", "to": "PermissionSet", "relationship": "PermissionSet"},
    },
)
_OBJECT_PERMISSIONS = computed_object(
    "ObjectPermissions",
    "110",
    {
        "ParentId": {"type": "reference", "to": "PermissionSet", "relationship": "Parent"},
        "SobjectType": _TEXT,
        "PermissionsRead": _TRUTH,
        "PermissionsViewAllRecords": _TRUTH,
    },
)
PERMISSION_OBJECTS = {each.name: each for each in (_PERMISSION_SET, _ASSIGNMENT, _OBJECT_PERMISSIONS)}


def permission_rows(org: EmulatedOrg, definition: ObjectDefinition) -> Sequence[ComputedRow]:
    """Return the rows of one of the objects as they are now."""
    instance = instance_characters(org.seed)
    sets = [new_id("0PS", instance, number) for number in (1, 2)]
    if definition is _PERMISSION_SET:
        profile = profiles(instance)[0].id
        owned: ComputedRow = {"Name": f"X{profile}", "Label": profile, "ProfileId": profile, "IsOwnedByProfile": 1}
        made: ComputedRow = {
            "Name": "Change_Event_Reader",
            "Label": "Change Event Reader",
            "ProfileId": None,
            "IsOwnedByProfile": 0,
        }
        return [
            {**audit_fields(org, sets[0], 0), **owned, "PermissionsViewAllData": int(org.view_all.of_all_data)},
            {**audit_fields(org, sets[1], 0), **made, "PermissionsViewAllData": 0},
        ]
    if definition is _ASSIGNMENT:
        return [
            {
                **audit_fields(org, new_id("0Pa", instance, number), 0),
                "AssigneeId": org.users.integration,
                "PermissionSetId": each,
            }
            for number, each in enumerate(sets, 1)
        ]
    listed = [entity for entity in org.definitions if entity not in WITHOUT_OBJECT_PERMISSIONS]
    return [
        {
            **audit_fields(org, new_id("110", instance, number), 0),
            "ParentId": sets[1],
            "SobjectType": entity,
            "PermissionsRead": 1,
            "PermissionsViewAllRecords": int(org.view_all.of(entity)),
        }
        for number, entity in enumerate(listed, 1)
    ]
