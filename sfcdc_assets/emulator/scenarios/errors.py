"""Errors of scenarios."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from sfcdc_assets.errors import SfcdcError


class ScenarioFileError(SfcdcError):
    """A file of a scenario says something that is none. Names the file, the step and what is wrong with it."""

    def __init__(self, file: str, place: str, problem: str) -> None:
        self.file = file
        self.place = place
        super().__init__(f"{file}{f', {place}' if place else ''}: {problem}.")


class UnknownScenarioError(SfcdcError):
    """There is no scenario of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        self.name = name
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Do you mean {near[0]}?" if near else f"There are {', '.join(known)}."
        super().__init__(f"There is no scenario {name}. {hint}")


class ScenarioRefusedError(SfcdcError):
    """The org refuses a step; those before it have happened."""

    def __init__(self, scenario: str, step: str, reason: str) -> None:
        self.scenario = scenario
        self.step = step
        super().__init__(f"The scenario {scenario} stops at the step `{step}`: {reason}.")
