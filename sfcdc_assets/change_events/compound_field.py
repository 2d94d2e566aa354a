"""From a compound field of an event to the flat fields of the object (docs/salesforce-streams.md, "Compound fields").

An event holds `BillingAddress.City`, REST and the tables hold `BillingCity`. Nothing in the schema ties the two
together; the rule is the field's name:

    BillingAddress.City  -> BillingCity        an address: the word Address gives way to the part
    Address.City         -> City               (Lead, User)
    Name.FirstName       -> FirstName          a person's name: the parts stand alone
    Loc__c.Latitude      -> Loc__Latitude__s   a custom geolocation or address
"""

from __future__ import annotations

from collections.abc import Iterator

from sfcdc_assets.change_events.event_schema import SchemaField

_NOT_IN_THE_OBJECT = frozenset({"Xyz", "XyzEncoded"})
"""Parts that only events had, until 2023: another encoding of latitude and longitude."""


def column_name(path: str) -> str | None:
    """Return the API name of the flat field that an event's field path stands for; None for a part no object has.

    A path without a dot stands for itself.
    """
    parent, dot, child = path.partition(".")
    if not dot:
        return parent
    if child in _NOT_IN_THE_OBJECT:
        return None
    if parent.endswith("__c"):
        return f"{parent.removesuffix('__c')}__{child}__s"
    if parent == "Name":
        return child
    for kind in ("Address", "Location"):
        if parent.endswith(kind):
            return parent.removesuffix(kind) + child
    return parent + child


def leaf_columns(field: SchemaField) -> Iterator[tuple[str, SchemaField, SchemaField | None]]:
    """Yield the flat fields of one field of the schema: (API name, the field, its child or None for the plain branch).

    A person's `Name` without a plain branch (Contact, Lead, User) gives its parts only: the object's `Name` is a full
    name that events do not carry.
    """
    if field.scalar is not None:
        yield field.name, field, None
    for child in field.children or ():
        name = column_name(f"{field.name}.{child.name}")
        if name is not None:
            yield name, field, child
