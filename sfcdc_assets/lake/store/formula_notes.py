"""What is known of the reading of formula fields beside their values, as a note in the warehouse: when each entity was
looked at, what waits and why.

A look that finds nothing due commits nothing. Without the note every entity is looked at once more.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sfcdc_assets.lake.store.notes import put_note, read_note
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SfcdcError

PATH = "channels_read/formulas.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FormulaNote:
    """Of one entity: when it was looked at (epoch ms, by our clock), how many formulas are read, which are withheld and
    why, when the oldest value was read, how many records wait for the next budget; `error`: why the last look failed,
    if it did, and how often in a row it has."""

    looked_at_ms: int = 0
    formulas: int = 0
    withheld: Mapping[str, str] = field(default_factory=dict)
    oldest_ms: int | None = None
    postponed: int = 0
    error: str | None = None
    failures: int = 0


@dataclass
class FormulaNotes:
    """Of all entities; and the user's time zone, with when it was asked for."""

    entities: dict[str, FormulaNote] = field(default_factory=dict)
    time_zone: tuple[str, int] | None = None


def read_formula_notes(warehouse: Warehouse) -> FormulaNotes:
    """Return the notes; empty ones where there are none, or they cannot be read. Raises what `read_note` raises."""
    noted = read_note(warehouse, PATH)
    try:
        found = {} if noted is None else json.loads(noted)
        return FormulaNotes(
            {entity: FormulaNote(**each) for entity, each in found.get("entities", {}).items()},
            tuple(found["time_zone"]) if found.get("time_zone") else None,
        )
    except (ValueError, TypeError, AttributeError):
        return FormulaNotes()


def note_formulas(warehouse: Warehouse, notes: FormulaNotes) -> None:
    """Replace the notes. That the warehouse does not take them fails no reading."""
    try:
        put_note(warehouse, PATH, json.dumps(asdict(notes)).encode())
    except SfcdcError as error:
        log.warning("It cannot be noted that formula fields were read: %s", error)
