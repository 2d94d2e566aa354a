"""Numbers of a dataclass as Delta's transaction versions, which log cleanup does not remove."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any


def stored_as(name: str) -> Any:
    """A field of a number, 0 at first, whose transaction version has another name than the field: that of a release
    which called it otherwise."""
    return field(default=0, metadata={"stored_as": name})


def stored_names(cls: Any) -> dict[str, str]:
    """Field of a dataclass -> name of its transaction version."""
    return {each.name: each.metadata.get("stored_as", each.name) for each in fields(cls)}
