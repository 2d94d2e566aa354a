"""Objects that go with another one: `ContactHistory` has old values of contacts, `ContactShare` who may see them.

What is copied of them is about the other object's records, and goes with these when they are erased.
"""

from __future__ import annotations

_KINDS = ("History", "Feed", "Share", "Tag")
_CUSTOM = "__c"


def companions_of(entity: str) -> tuple[str, ...]:
    """Return the names that an object's companions have: `Contact` -> `ContactHistory`, ...; `Case__c` ->
    `Case__History`, ..."""
    base = entity.removesuffix(_CUSTOM) + "__" if entity.endswith(_CUSTOM) else entity
    return tuple(f"{base}{kind}" for kind in _KINDS)


def columns_of_parent(companion: str) -> tuple[str, ...]:
    """Return the columns that may name the record a row of a companion is about; none of an object that is no
    companion by its name."""
    base = next((companion.removesuffix(kind) for kind in _KINDS if companion.endswith(kind)), "")
    if not base:
        return ()
    return ("ParentId",) if base.endswith("__") else (f"{base}Id", "ParentId")
