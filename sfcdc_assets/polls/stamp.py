"""The stamp of an object: the field whose value moves with its records' changes, by which it is asked for what changed.

Not every object has the same (Object Reference for Salesforce, "System Fields"): `SystemModstamp` moves with every
change, by people and by Salesforce's own jobs; `LastModifiedDate` can be set from outside and does not move with the
latter; `CreatedDate` of an object that has no other says that its records do not change. Describe says of each field
whether a query may filter and sort by it, which holds of some objects' stamps and not of others'.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.object_description import STAMPS, ObjectDescription

MUTABLE_WITHOUT_STAMP = frozenset({"AsyncApexJob", "CronTrigger", "OauthToken", "AuthProvider"})
"""Objects that have a `CreatedDate` alone, and whose records change all the same."""


class NotPollable(SfcdcError):
    """An object that cannot be asked for what changed."""

    def __init__(self, entity: str, reason: str) -> None:
        self.entity, self.reason = entity, reason
        super().__init__(
            f"{entity} cannot be polled: {reason}. Take it out of SFCDC_POLL, or name it in SFCDC_POLL_EXCLUDE."
        )


@dataclass(frozen=True)
class Stamp:
    """A field, and whether it moves with each change; where it does not, records are written once."""

    field: str

    @property
    def moves(self) -> bool:
        """Whether a change of a record moves it."""
        return self.field in STAMPS[:2]


def stamp_of(description: ObjectDescription) -> Stamp:
    """Return the best stamp that a query may filter and sort by. Raises `NotPollable`."""
    if not description.queryable:
        raise NotPollable(description.name, "the org does not let it be queried")
    if description.name in MUTABLE_WITHOUT_STAMP:
        raise NotPollable(description.name, "its records change, and it has no field that moves with them")
    fields = {field.name: field for field in description.fields}
    for name in STAMPS:
        field = fields.get(name)
        if field is not None and field.filterable and field.sortable:
            return Stamp(name)
    seen = [name for name in STAMPS if name in fields]
    if seen:
        raise NotPollable(description.name, f"a query may not filter and sort by {' or '.join(seen)}")
    raise NotPollable(description.name, f"it has none of {', '.join(STAMPS)}")
