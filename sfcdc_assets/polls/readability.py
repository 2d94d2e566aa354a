"""How an object can be read, decided before anything of it is copied: by which API, by what it is asked for what
changed, and what has to be read again because no stamp tells of it. Or why it cannot, and where to look instead.

The name decides first (`known_objects`), then describe. What neither says the org does: whoever copies an object asks
it for one record before anything is written (`refusal_of_query`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sfcdc_assets.polls.known_objects import ALL_FIELDS, ParentKey, is_written_once, known_object
from sfcdc_assets.polls.stamp import Stamp, stamp_among_fields
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.object_description import ObjectDescription

_INSTEAD = "take it out of SFCDC_POLL"
_NEVER = {
    "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION": "the org gives single records of it only",
    "INVALID_TYPE_FOR_OPERATION": "no query may name it",
    "MALFORMED_QUERY": "a query of it has to name what is wanted",
    "INVALID_TYPE": "no query may name it",
    "INVALID_QUERY_FILTER_OPERATOR": "a query of it has to name what is wanted",
    "UNSUPPORTED_API_VERSION": "this version of the API does not have it",
}
"""What the org says to a query of one record of an object, whatever the query: the code, and what it comes to."""


class NotPollable(SfcdcError):
    """An object that cannot be read as a table. `instead`: what to do."""

    def __init__(self, entity: str, reason: str, instead: str | None = None) -> None:
        self.entity, self.reason, self.instead = entity, reason, instead or _INSTEAD
        super().__init__(f"{entity} cannot be polled: {reason.rstrip('.')}. Instead, {self.instead}.")


@dataclass(frozen=True)
class Readability:
    """Of one object. `stamp`: by what it is asked for what changed; None where nothing serves, and its records are
    compared as a whole. `unstamped`: fields that change without the stamp, `ALL_FIELDS` for any; they are compared as
    well. `no_bulk`: it is copied by queries. `parent`: those queries name its parents."""

    stamp: Stamp | None
    unstamped: tuple[str, ...] = ()
    no_bulk: bool = False
    parent: ParentKey | None = None

    @property
    def is_compared(self) -> bool:
        """Whether its records have to be compared as a whole now and then."""
        return self.stamp is None or bool(self.unstamped)

    def without(self, stamp: str | None) -> Readability:
        """Return how it is read where the org refuses queries by this stamp."""
        if self.stamp is None or self.stamp.field != stamp:
            return self
        return replace(self, stamp=None, unstamped=())


def refusal_by_name(name: str) -> NotPollable | None:
    """Return why an object cannot be read as a table, as far as its name says it; None where it does not."""
    known = known_object(name)
    return NotPollable(name, known.refused, known.instead) if known.refused else None


def readability(description: ObjectDescription) -> Readability:
    """Return how an object can be read. Raises `NotPollable`."""
    refusal = refusal_by_name(description.name)
    if refusal is not None:
        raise refusal
    if not description.queryable:
        raise NotPollable(description.name, "the org does not let it be queried")
    known = known_object(description.name)
    if "Id" not in description.field_names:
        raise NotPollable(description.name, "its records have no Ids")
    stamp = None if known.parent is not None else stamp_among_fields(description)
    unstamped = tuple(each for each in known.unstamped if each in description.field_names)
    if stamp is not None and not stamp.moves and not is_written_once(description.name):
        unstamped = ALL_FIELDS
    return Readability(stamp, unstamped if stamp is not None else (), known.no_bulk, known.parent)


def refusal_of_query(entity: str, code: str, message: str) -> NotPollable | None:
    """Return what it means that the org refused a query of one record with this code; None where it says nothing about
    the object."""
    why = _NEVER.get(code)
    return NotPollable(entity, f"{why} ({code}: {message})") if why is not None else None
