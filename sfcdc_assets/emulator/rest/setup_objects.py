"""Objects of Setup, whose rows are computed from the org when they are asked for: which org this is, its objects and
fields, record types and profiles. Their fields are in `objects/setup`, in the form of all object files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import BUILT_IN_OBJECTS, load_definitions
from sfcdc_assets.emulator.definitions.record_types import record_types
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.object_tables import columns_of
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets.emulator.org.settings import DAY, HOUR
from sfcdc_assets.emulator.rest.computed_objects import ComputedObjects, ComputedRow, audit_fields
from sfcdc_assets.emulator.rest.definition_rows import Facts, field_facts, object_facts, visible_objects
from sfcdc_assets.emulator.rest.permission_sets import PERMISSION_OBJECTS, permission_rows

EventUsage = Callable[[int, int], Mapping[str, int]]
"""How many events there were from one full hour to another (epoch ms), by the metric's name."""
_USAGE = "PlatformEventUsageMetric"


@cache
def setup_definitions() -> Mapping[str, ObjectDefinition]:
    """All objects of Setup by name, with those that tell of permissions."""
    loaded = {each.name: each for each in load_definitions(BUILT_IN_OBJECTS / "setup")}
    # Objects and fields are named by durable ids, which are not in the form of record ids.
    fields = loaded["FieldDefinition"]
    by_name = tuple(replace(f, type="string") if f.name == "EntityDefinitionId" else f for f in fields.fields)
    return {**loaded, "FieldDefinition": fields.with_fields(by_name), **PERMISSION_OBJECTS}


def no_event_usage(_start: int, _end: int) -> Mapping[str, int]:
    """Return the usage of an org without an event bus."""
    return {}


def setup_objects(org: EmulatedOrg, event_usage: EventUsage) -> ComputedObjects:
    """All of them with their rows."""

    def rows(definition: ObjectDefinition) -> Sequence[ComputedRow]:
        if definition.name in PERMISSION_OBJECTS:
            return permission_rows(org, definition)
        empty = {field.name: (0 if field.type == "boolean" else None) for field in columns_of(definition)}
        facts = _usage(org, event_usage) if definition.name == _USAGE else _ROWS[definition.name](org)
        return [{**empty, **audit_fields(org, record_id, 0), **known} for record_id, known in facts]

    return ComputedObjects(setup_definitions(), rows)


def _usage(org: EmulatedOrg, event_usage: EventUsage) -> Facts:
    """Yield the usage of the last 24 full hours
    (https://developer.salesforce.com/docs/atlas.en-us.object_reference.meta/
    object_reference/sforce_api_objects_platformeventusagemetric.htm)."""
    end = org.clock() // HOUR * HOUR
    for number, (name, value) in enumerate(sorted(event_usage(end - DAY, end).items()), 1):
        if value:
            record_id = new_id("0pu", instance_characters(org.seed), number)
            yield record_id, {"Name": name, "StartDate": end - DAY, "EndDate": end, "Value": float(value)}


def _organization(org: EmulatedOrg) -> Facts:
    yield (
        org.organization_id,
        {
            "Name": "Emulated org",
            "InstanceName": org.instance_name,
            "OrganizationType": "Developer Edition",
            "IsSandbox": int(org.settings.is_sandbox),
            "DefaultLocaleSidKey": "en_US",
            "TimeZoneSidKey": "America/Los_Angeles",
            "LanguageLocaleKey": "en_US",
            "FiscalYearStartMonth": 1,
            "DefaultAccountAccess": "Edit",
            "Country": "US",
        },
    )


def _record_types(org: EmulatedOrg) -> Facts:
    for definition in visible_objects(org):
        for each in record_types(definition, instance_characters(org.seed)):
            yield (
                each.id,
                {
                    "Name": each.name,
                    "DeveloperName": each.developer_name,
                    "SobjectType": each.entity,
                    "IsActive": 1,
                    "IsPersonType": int(each.is_person),
                },
            )


def _profiles(org: EmulatedOrg) -> Facts:
    first, *others = profiles(instance_characters(org.seed))
    for each in (replace(first, views_all_data=org.view_all.of_all_data), *others):
        yield (
            each.id,
            {
                "Name": each.name,
                "PermissionsApiEnabled": 1,
                "PermissionsViewAllData": int(each.views_all_data),
                "UserType": "Standard",
            },
        )


_ROWS: Mapping[str, Callable[[EmulatedOrg], Facts]] = {
    "Organization": _organization,
    "RecordType": _record_types,
    "Profile": _profiles,
    "EntityDefinition": object_facts,
    "FieldDefinition": field_facts,
    "EventBusSubscriber": lambda _org: iter(()),
}
