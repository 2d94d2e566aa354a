"""Names beside ids: what the record is called that a lookup points to, whichever object it is of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.sql.labels import RECORD_TYPE
from sfcdc_assets.sql.text import name
from sfcdc_assets.sql.users import USER, columns_of_name, name_beside, readable_columns


@dataclass(frozen=True)
class LookupName:
    """A column with names: its name, and the objects to whose records the lookup may point, of those that are copied
    and have names."""

    beside: str
    objects: tuple[str, ...]

    def description(self, column: str) -> str:
        """Say what the column holds, in a sentence."""
        return f"Name of the {' or '.join(self.objects)} in {column}, as it is now."


def lookup_columns(
    schema: pa.Schema,
    described: ObjectDescription | None,
    named: Collection[str],
    users: Mapping[str, str],
    beside: Iterable[str] = (),
) -> dict[str, LookupName]:
    """Column -> the one with names beside it: `AccountId` -> `account_name`, `Site__c` -> `site__c_name`.

    `named`: the objects that are copied and whose records have names. Lookups of `users` keep their column, and have in
    it the names of whatever else they may point to (a queue that owns). Each name follows from its field alone; one
    that the table has, or that another column `beside` has, is left out. So are hashed ids, which lead nowhere, and
    record types, which labels name.
    """
    taken = {each.lower() for each in (*schema.names, *users.values(), *beside)}
    found, columns = dict[str, LookupName](), readable_columns(schema)
    for field in described.fields if described else ():
        objects = tuple(each for each in field.reference_to if each in named)
        column = columns.get(field.name.lower())
        if not objects or field.name == RECORD_TYPE or column is None:
            continue
        if column in users:
            if objects != (USER,):
                found[column] = LookupName(users[column], objects)
        elif (wanted := name_beside(field)) not in taken:
            taken.add(wanted)
            found[column] = LookupName(wanted, objects)
    return found


def name_of_record(schema: pa.Schema, name_field: str | None) -> str | None:
    """Return the expression for a record's name over the columns of its table: its name field, as describe tells it, or
    the parts of a person's name; None where the copy has none of it."""
    if name_field is not None and name_field != "Name":
        column = readable_columns(schema).get(name_field.lower())
        return f"CAST({name(column)} AS VARCHAR)" if column is not None else None
    parts = [name(each) for each in columns_of_name(schema)]
    return f"concat_ws(' ', {', '.join(parts)})" if parts else None


def relation_of_names(entity: str) -> str:
    """Return what the relation with the names of an object's records is called: `id` and `name`."""
    return f"{entity.lower()}_names"


def lookup_joins(columns: Mapping[str, LookupName]) -> tuple[str, str]:
    """Return what to select beside a relation `v`, and what to join to it. An engine leaves out a join by a key that
    is there once where nothing of it is asked for."""
    selected, joined = "", ""
    for number, (column, lookup) in enumerate(columns.items()):
        each = (f"SELECT id, name FROM {name(relation_of_names(entity))}" for entity in lookup.objects)
        names = f"SELECT id, any_value(name) AS name FROM ({' UNION ALL '.join(each)}) GROUP BY id"
        selected += f", n{number}.name AS {name(lookup.beside)}"
        joined += f" LEFT JOIN ({names}) AS n{number} ON n{number}.id = v.{name(column)}"
    return selected, joined
