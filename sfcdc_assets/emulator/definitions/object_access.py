"""How an object can be read and written, where that is not as usual: what describe says of it, and what queries of it
have to look like. Each of these objects is one that a poller meets in a real org (docs/salesforce-streams.md, "Objects
that are not like others")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any


class CompanionKind(StrEnum):
    """What an object keeps of another one (`associateEntityType` of describe)."""

    HISTORY = "History"
    SHARE = "Share"
    FEED = "Feed"


@dataclass(frozen=True)
class ObjectAccess:
    """An object's own rules. In an object file they are the keys of `access`."""

    queryable: bool = True
    replicateable: bool = True
    """Whether `updated` and `deleted` list its records; never without a stamp."""
    retrieveable: bool = True
    """Whether `composite/sobjects` gives its records by their ids; queries do."""
    writable: bool = True
    """Whether clients may create, update and delete records; otherwise the org alone does."""
    bulk: bool = True
    """Whether the Bulk APIs read it."""
    events: bool = True
    """Whether change data capture can be enabled for it."""
    needs_filter: tuple[str, ...] = ()
    """A query must compare one of these fields by `=` or IN, at the top level of its conditions."""
    refusal: str | None = None
    """The message to a query that lacks such a filter, or any query where nothing helps."""
    refusal_code: str = "MALFORMED_QUERY"
    index: tuple[str, ...] = ()
    """Of a big object: the fields that it can be filtered by, in this order."""
    own_ids: bool = True
    """False: queries show and compare the empty Id in place of each record's own."""
    refuses_order_by: tuple[str, ...] = ()
    """Fields that describe calls sortable, and by which no query may be ordered."""
    purged_on_delete: bool = False
    """Deleted records are gone at once: IsDeleted is never true, and nothing brings them back."""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ObjectAccess:
        """Return the rules as an object file or a stored definition has them. Raises ValueError for an unknown key."""
        known = {field.name for field in fields(cls)}
        if unknown := document.keys() - known:
            raise ValueError(f"access has no key {', '.join(sorted(unknown))}")
        of_fields = ("needs_filter", "index", "refuses_order_by")
        lists = {name: tuple(document[name]) for name in of_fields if name in document}
        return cls(**{**document, **lists})


@dataclass(frozen=True)
class Companion:
    """Of an object that goes with another one: whose it is, and by which field it names the record."""

    parent: str
    kind: CompanionKind
    parent_field: str


USUAL = ObjectAccess()
