"""Which records' formulas a change of their parents may have changed: pure, given who refers to whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Protocol

from sfcdc_assets.formulas.dependencies import FormulaDependencies, Lookup

ChangedFields = frozenset[str] | None
"""Names of the fields that changed; None if any may have: the record is new, deleted or restored, or suspect."""
ChangedRecords = Mapping[str, ChangedFields]
"""By record id."""


class Referring(Protocol):
    """Finds the records that refer to others."""

    def __call__(self, entity: str, lookup: str, ids: Collection[str]) -> Iterable[str]:
        """Return the ids of the records of `entity` whose field `lookup` holds one of `ids`."""


def affected_records(
    entity: str, formulas: FormulaDependencies, changed: Mapping[str, ChangedRecords], referring: Referring
) -> Set[str]:
    """Return the ids of the records of `entity` that refer, over any number of lookups, to a changed record of which a
    formula reads a changed field.

    `changed`: by object. Each step of each path is asked about once, paths that begin alike together. A change of a
    lookup on the way is a change of a field that the formula reads.
    """
    felt: dict[tuple[Lookup, ...], set[str]] = {}
    for each in formulas.parents:
        ids = {
            record_id
            for record_id, fields in changed.get(each.entity, {}).items()
            if fields is None or not fields.isdisjoint(each.fields)
        }
        if ids:
            felt[each.path] = ids
    while longest := max(felt, key=len, default=()):
        *nearer, last = longest
        owner = nearer[-1].entity if nearer else entity
        ids = set(referring(owner, last.field, felt.pop(longest)))
        if ids:
            felt.setdefault(tuple(nearer), set()).update(ids)
    return felt.get((), set())
