"""What the stage of an opportunity says beside its name: the org fills these fields in whenever the stage is set.

Change events carry them (Change Data Capture Developer Guide, "Change Events for Lead Conversion").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.org.transaction import StoredValue

_CATEGORIES = {"Omitted": "Omitted", "Pipeline": "Pipeline", "BestCase": "Best Case", "Forecast": "Commit",
               "Closed": "Closed"}  # fmt: skip
"""Forecast category -> its label, which is another field's value."""


@dataclass(frozen=True)
class Stage:
    """A value of StageName with what it stands for. `probability` is in percent."""

    category: str
    probability: float
    is_closed: bool = False
    is_won: bool = False

    @property
    def read_only(self) -> dict[str, StoredValue]:
        """The fields that nobody but the org sets."""
        return {"IsClosed": self.is_closed, "IsWon": self.is_won, "ForecastCategory": self.category}

    @property
    def proposed(self) -> dict[str, StoredValue]:
        """The fields that have these values unless others are given."""
        return {"Probability": self.probability, "ForecastCategoryName": _CATEGORIES[self.category]}


STAGES: Mapping[str, Stage] = {
    "Prospecting": Stage("Pipeline", 10.0),
    "Qualification": Stage("Pipeline", 10.0),
    "Needs Analysis": Stage("Pipeline", 20.0),
    "Value Proposition": Stage("Pipeline", 50.0),
    "Proposal/Price Quote": Stage("Pipeline", 75.0),
    "Negotiation/Review": Stage("Pipeline", 90.0),
    "Closed Won": Stage("Closed", 100.0, is_closed=True, is_won=True),
    "Closed Lost": Stage("Omitted", 0.0, is_closed=True),
}
_UNKNOWN = Stage("Pipeline", 10.0)
"""A stage that an administrator has added counts as open."""


def stage_of(name: object) -> Stage:
    """Return the stage of that name."""
    return STAGES.get(str(name), _UNKNOWN)


def has_stages(opportunity: ObjectDefinition) -> bool:
    """Return whether the org keeps these fields; one that was made before they were in events computes them."""
    known = opportunity.fields_by_name
    return all(name in known and known[name].is_stored for name in (*_UNKNOWN.read_only, *_UNKNOWN.proposed))
