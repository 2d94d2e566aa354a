"""An org of hundreds of custom objects, for what must not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions, object_definition
from sfcdc_assets.emulator.org.ids import BASE62
from sfcdc_assets.emulator.org.org import EmulatedOrg

FIELDS = [
    {"Name": {"type": "string", "length": 80}},
    {"Status__c": {"type": "picklist", "values": ["Draft", "Sent"], "default": "Draft"}},
    {"Amount__c": {"type": "currency"}},
    {"Due__c": {"type": "date"}},
    {"Is_Paid__c": {"type": "boolean"}},
    {"Notes__c": {"type": "long_text"}},
]


def object_names(count: int) -> list[str]:
    """`Object_000__c` and so on."""
    return [f"Object_{number:03}__c" for number in range(count)]


def objects(count: int) -> tuple[ObjectDefinition, ...]:
    """So many custom objects of seven fields, and the User that every org has."""
    user = next(each for each in built_in_definitions() if each.name == "User")
    return (
        user,
        *(
            object_definition(
                {
                    "name": name,
                    "label": name.removesuffix("__c").replace("_", " "),
                    "key_prefix": f"c{BASE62[number // 62]}{BASE62[number % 62]}",
                    "fields": FIELDS,
                },
                name,
            )
            for number, name in enumerate(object_names(count))
        ),
    )


def create_in_each(org: EmulatedOrg, entities: Iterable[str], records: int = 1) -> list[str]:
    """One transaction an object, of so many records: their ids."""
    found = []
    for entity in entities:
        with org.transaction() as work:
            found += [work.create(entity, {"Name": f"{entity} {number}"}) for number in range(records)]
    return found


def update_in_each(org: EmulatedOrg, entities: Sequence[str], changes: int) -> None:
    """So many events of each object: as many transactions, each with a change of one record of every object."""
    ids = {entity: [str(record["Id"]) for record in org.records(entity)] for entity in entities}
    for number in range(changes):
        with org.transaction() as work:
            for entity in entities:
                of_entity = ids[entity]
                work.update(entity, of_entity[number % len(of_entity)], {"Name": f"changed {number}"})
