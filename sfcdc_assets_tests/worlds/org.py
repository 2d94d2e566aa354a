"""The oracle: what an org has after each event of a small world, and whether the event told it. Believe this page, and
what the small worlds prove follows.

An event has a kind. `does` is what happens to the record in the org; `tells` is what the event says of that.
"""

from __future__ import annotations

from typing import NamedTuple

ABSENT, ALIVE, DELETED = "absent", "alive", "deleted"
FIELDS = ("Name", "Count", "Description")


class Kind(NamedTuple):
    """One kind of event."""

    life: str
    """Of the record before it: no org sends an update of a record that does not exist."""
    life_after: str
    does: tuple[str, ...]
    """Fields that get a new value."""
    change_type: str
    tells: tuple[str, ...] = ()
    """Fields whose value it carries."""
    opens: bool = False
    """It does not tell all: from here on the record's row has to say so, until the record is read."""


KINDS = {
    "create": Kind(ABSENT, ALIVE, FIELDS, "CREATE", FIELDS),
    "gap create": Kind(ABSENT, ALIVE, FIELDS, "GAP_CREATE", opens=True),
    "update": Kind(ALIVE, ALIVE, ("Name",), "UPDATE", ("Name",)),
    "null": Kind(ALIVE, ALIVE, ("Name",), "UPDATE", ("Name",)),
    "no news": Kind(ALIVE, ALIVE, (), "UPDATE", ("Count",)),
    "diff": Kind(ALIVE, ALIVE, ("Description",), "UPDATE", ("Description",)),
    "broken diff": Kind(ALIVE, ALIVE, ("Description",), "UPDATE", ("Description",), opens=True),
    "untold name": Kind(ALIVE, ALIVE, ("Name", "Count"), "UPDATE", ("Count",), opens=True),
    "gap update": Kind(ALIVE, ALIVE, ("Name",), "GAP_UPDATE", opens=True),
    "undecodable": Kind(ALIVE, ALIVE, ("Count",), "UNDECODABLE", opens=True),
    "delete": Kind(ALIVE, DELETED, (), "DELETE"),
    "gap delete": Kind(ALIVE, DELETED, (), "GAP_DELETE", opens=True),
    "undelete": Kind(DELETED, ALIVE, (), "UNDELETE", FIELDS),
    "gap undelete": Kind(DELETED, ALIVE, (), "GAP_UNDELETE", opens=True),
}
OVERFLOW = "overflow"
"""Of the entity: every living record gets a new name, and no event says so."""


class Record(NamedTuple):
    """A record as the org has it."""

    life: str
    Name: str | None
    Count: int | None
    Description: str | None
    modified: int
    """The position of the last event about it; 0 for none."""


BEFORE = {
    "absent": Record(ABSENT, None, None, None, 0),
    "alive": Record(ALIVE, "n0", 0, "t0", 0),
    "deleted": Record(DELETED, "n0", 0, "t0", 0),
    "hidden": Record(ALIVE, "n0", 0, "t0", 0),
}
"""A record before the first event. One that is hidden is shown by no snapshot at position 0."""


def after(record: Record, kind: str, position: int) -> Record:
    """Return the record after an event about it at a position."""
    if kind == OVERFLOW:
        is_there = record.life == ALIVE
        return record._replace(Name=f"n{position}", modified=position) if is_there else record
    one = KINDS[kind]
    new = {"Name": None if kind == "null" else f"n{position}", "Count": position, "Description": f"t{position}"}
    values = {field: new[field] for field in one.does}
    return record._replace(life=one.life_after, modified=position, **values)
