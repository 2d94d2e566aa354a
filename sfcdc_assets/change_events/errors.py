"""What can be wrong with one change event. Each is a reason to quarantine that event, never to stop the stream."""

from __future__ import annotations

import re

from sfcdc_assets.runtime.errors import SfcdcError

_BITMAP_CHARACTERS = re.compile(r"[0-9A-Fa-fxX-]{1,200}")
_QUARANTINE = "The event is kept as received; the records it names have to be read back from the org"


class ChangeEventError(SfcdcError):
    """Base of all reasons why an event could not be decoded; catch this one to quarantine."""


class EventSchemaError(ChangeEventError):
    """The schema is not a change event's schema."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"This is not the Avro schema of a change event: {problem}. Ask GetSchema for it again.")


class HeaderError(ChangeEventError):
    """The header at the front of the payload cannot be read."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"The change event's header cannot be read: {problem}. {_QUARANTINE}.")


class BitmapError(ChangeEventError):
    """A bitmap of the header does not fit the event's schema: it was read with a wrong schema."""

    def __init__(self, element: str, problem: str) -> None:
        self.element = element
        self.problem = problem
        # Broken bytes may bring a piece of a text in a bitmap's place; that is the org's data and not shown.
        shown = repr(element) if _BITMAP_CHARACTERS.fullmatch(element) else f"of {len(element)} characters"
        super().__init__(
            f"The field bitmap element {shown} {problem}. "
            "Bitmaps hold only for the event's own schema id: decode it with that one."
        )


class PayloadError(ChangeEventError):
    """The body of the payload cannot be read with the schema: cut off, garbage, or another schema's bytes."""

    def __init__(self, entity: str, problem: str, field: str = "") -> None:
        self.entity = entity
        self.problem = problem
        self.field = field
        where = f"{entity}.{field}" if field else entity
        super().__init__(f"The change event of {where} cannot be decoded: {problem}. {_QUARANTINE}.")
