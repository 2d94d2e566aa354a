"""Errors of deriving event schemas."""

from __future__ import annotations

from sfcdc_assets.errors import SfcdcError


class EventSchemaError(SfcdcError):
    """A field of an object definition has no place in a change event schema."""

    def __init__(self, entity: str, field: str, problem: str) -> None:
        self.entity = entity
        self.field = field
        self.problem = problem
        super().__init__(
            f"{entity}.{field} cannot be part of change events: {problem}. Correct the object's definition file."
        )
