"""The stamp of an object: the field whose value moves with its records' changes, by which it is asked for what changed.

Not every object has the same (Object Reference for Salesforce, "System Fields"): `SystemModstamp` moves with every
change, by people and by Salesforce's own jobs; `LastModifiedDate` can be set from outside and does not move with the
latter; `CreatedDate` says which records are new, and nothing of those that change. Describe says of each field
whether a query may filter and sort by it, which holds of some objects' stamps and not of others'.
"""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.salesforce.object_description import STAMPS, ObjectDescription


@dataclass(frozen=True)
class Stamp:
    """A field, and whether it moves with each change; where it does not, it shows new records alone."""

    field: str

    @property
    def moves(self) -> bool:
        """Whether a change of a record moves it."""
        return self.field in STAMPS[:2]


def stamp_among_fields(description: ObjectDescription) -> Stamp | None:
    """Return the best stamp that a query may filter and sort by, beside the Id; None where there is none."""
    fields = {field.name: field for field in description.fields}
    record_id = fields.get("Id")
    if record_id is None or not (record_id.filterable and record_id.sortable):
        return None
    for name in STAMPS:
        field = fields.get(name)
        if field is not None and field.filterable and field.sortable:
            return Stamp(name)
    return None
