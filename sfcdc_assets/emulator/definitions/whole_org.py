"""Sets of objects for orgs that are polled: one of each kind a poller meets, and as many as a company has."""

from __future__ import annotations

from functools import cache

from sfcdc_assets.emulator.definitions.companions import is_trackable, with_companions
from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import (
    built_in_definitions,
    object_definition,
    polled_definitions,
    stock_definitions,
)
from sfcdc_assets.emulator.org.ids import BASE62

_TRACKED = {
    "Account": ("Name", "Industry", "AnnualRevenue", "OwnerId", "ParentId", "Description", "IsPriority__c"),
    "Contact": ("LastName", "Email", "AccountId", "OwnerId"),
    "Opportunity": ("StageName", "Amount", "CloseDate", "OwnerId"),
    "Case": ("Status", "Priority", "OwnerId", "ContactId"),
    "Invoice_Statement__c": None,
}
_SHARED = ("Account", "Opportunity", "Case", "Invoice_Statement__c")
_FED = ("Account", "Case")
_MOST_CUSTOM = 62 * 62


@cache
def whole_org() -> tuple[ObjectDefinition, ...]:
    """Return the built-in objects, those of stock, one of each kind that is not like others, and companions."""
    objects = (*built_in_definitions(), *stock_definitions(), *polled_definitions())
    by_name = {each.name: each for each in objects}
    history = {}
    for name, fields in _TRACKED.items():
        known = [each for each in by_name[name].fields if is_trackable(each)]
        wanted = [each.name for each in known if fields is None or each.name in fields]
        history[name] = wanted[:20]
    return with_companions(objects, history=history, shared=_SHARED, fed=_FED)


def custom_objects(count: int, *, fields: int = 12) -> tuple[ObjectDefinition, ...]:
    """Return so many custom objects, `Thing_001__c` and so on, each with so many fields beside its name, a lookup to
    the one before it among them."""
    if count > _MOST_CUSTOM:
        raise ValueError(f"there are key prefixes for {_MOST_CUSTOM} objects only")
    kinds: list[dict[str, object]] = [
        {"type": "string"},
        {"type": "picklist", "values": ["New", "Open", "Done"]},
        {"type": "double"},
        {"type": "date"},
        {"type": "boolean"},
        {"type": "datetime"},
        {"type": "currency"},
        {"type": "long_text"},
    ]
    made = []
    for number in range(count):
        entries: list[object] = [{"Name": {"type": "string", "length": 80, "required": True}}]
        entries.append({"OwnerId": {"type": "reference", "to": "User", "required": True}})
        if number:
            lookup = {"type": "reference", "to": f"Thing_{number:03}__c", "relationship": "Before__r"}
            entries.append({"Before__c": lookup})
        entries += [{f"Field_{place:02}__c": kinds[place % len(kinds)]} for place in range(1, fields)]
        first, second = divmod(number, 62)
        document = {
            "name": f"Thing_{number + 1:03}__c",
            "label": f"Thing {number + 1}",
            "key_prefix": "b" + BASE62[first] + BASE62[second],
            "fields": entries,
        }
        made.append(object_definition(document, f"Thing_{number + 1:03}__c"))
    return tuple(made)
