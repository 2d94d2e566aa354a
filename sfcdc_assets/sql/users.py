"""Names of users beside their ids: which columns refer to users, and what a user is called."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.object_description import FieldDescription, ObjectDescription
from sfcdc_assets.sql.text import name

USER = "User"
COMMIT_USER = "_commit_user"
_HASHED = b"salesforce.hashed"


def user_columns(schema: pa.Schema, described: ObjectDescription | None) -> dict[str, str]:
    """Column with a user's id -> column with the user's name beside it: `OwnerId` -> `owner_name`, `Approver__c` ->
    `approver__c_name`.

    Each name follows from its field alone, so it stays when others are added, and none is there twice. An id that is
    hashed leads nowhere.
    """
    taken, columns = {each.lower() for each in schema.names}, readable_columns(schema)
    found: dict[str, str] = {}

    def put(column: str, wanted: str) -> None:
        for beside in (wanted, f"{column.lower()}_name"):
            if beside not in taken:
                taken.add(beside)
                found[column] = beside
                return

    for field in described.fields if described else ():
        column = columns.get(field.name.lower())
        if USER in field.reference_to and column is not None:
            put(column, name_beside(field))
    if COMMIT_USER in schema.names:
        put(COMMIT_USER, f"{COMMIT_USER}_name")
    return found


def name_of_user(schema: pa.Schema) -> str | None:
    """Return the expression for a user's name over the columns of User's table; None where the copy has none of it."""
    parts = [name(each) for each in columns_of_name(schema)]
    return f"concat_ws(' ', {', '.join(parts)})" if parts else None


def columns_of_name(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns of User's table that make a user's name, to be joined by spaces; none that is hashed."""
    columns = readable_columns(schema).values()
    return ("Name",) if "Name" in columns else tuple(each for each in ("FirstName", "LastName") if each in columns)


def joins(columns: Mapping[str, str], users: str) -> tuple[str, str]:
    """Return what to select beside a relation `v`, and what to join to it; `users`: a relation with `id` and `name`."""
    selected, joined = "", ""
    for number, (column, beside) in enumerate(columns.items()):
        selected += f", u{number}.name AS {name(beside)}"
        joined += f" LEFT JOIN {users} AS u{number} ON u{number}.id = v.{name(column)}"
    return selected, joined


def readable_columns(schema: pa.Schema) -> dict[str, str]:
    """Field, in lower case -> the column with its values, and not their hashes. A field that was made again in another
    case keeps the column that it had."""
    return by_any_case(column.name for column in schema if _HASHED not in (column.metadata or {}))


def name_beside(field: FieldDescription) -> str:
    """Return what the column with names beside a lookup is called: `LastModifiedById` -> `last_modified_by_name`.

    A custom field keeps its whole name: those of two may differ by an underscore only.
    """
    if field.name.lower().endswith("__c"):
        return f"{field.name.lower()}_name"
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field.relationship_name or field.name.removesuffix("Id"))
    return f"{words.lower()}_name"
