"""What is known of the reading of formula fields beside their values, as a note in the warehouse: when each entity was
looked at, what waits and why.

A look that finds nothing due commits nothing. Without the note every entity is looked at once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sfcdc_assets.formulas.wanted_formulas import RefusedFormula
from sfcdc_assets.lake.store.notes import failing_nothing, put_json, read_json
from sfcdc_assets.lake.warehouse import Warehouse

PATH = "channels_read/formulas.json"


@dataclass(frozen=True)
class FormulaNote:
    """Of one entity: when it was looked at (epoch ms, by our clock), how many formulas are read, which are withheld and
    why, when the oldest value was read, how many records wait for the next budget; `error`: why the last look failed,
    if it did, and how often in a row it has; `refused`: formulas that the org does not compute."""

    looked_at_ms: int = 0
    formulas: int = 0
    withheld: Mapping[str, str] = field(default_factory=dict)
    oldest_ms: int | None = None
    postponed: int = 0
    error: str | None = None
    failures: int = 0
    refused: Mapping[str, RefusedFormula] = field(default_factory=dict)


@dataclass
class FormulaNotes:
    """Of all entities; and the user's time zone, with when it was asked for."""

    entities: dict[str, FormulaNote] = field(default_factory=dict)
    time_zone: tuple[str, int] | None = None


def read_formula_notes(warehouse: Warehouse) -> FormulaNotes:
    """Return the notes; empty ones where there are none, or they cannot be read. Raises what `read_note` raises."""
    return read_json(warehouse, PATH, _notes, otherwise=FormulaNotes())


def _notes(noted: Any) -> FormulaNotes:
    return FormulaNotes(
        {entity: _note(each) for entity, each in noted.get("entities", {}).items()},
        tuple(noted["time_zone"]) if noted.get("time_zone") else None,
    )


def _note(noted: Any) -> FormulaNote:
    refused = {name: RefusedFormula(**each) for name, each in noted.get("refused", {}).items()}
    return FormulaNote(**{**noted, "refused": refused})


def note_formulas(warehouse: Warehouse, notes: FormulaNotes) -> None:
    """Replace the notes. That the warehouse does not take them fails no reading."""
    with failing_nothing("that formula fields were read"):
        put_json(warehouse, PATH, asdict(notes))
