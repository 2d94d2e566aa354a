"""A scenario as its file has it.

    title: A lead is converted
    happens: A salesperson makes an account, a contact and an opportunity of a lead.
    received: CREATE of Account, Contact and Opportunity, then an UPDATE of the lead, in one transaction.
    captures: [Lead, Account, Contact, Opportunity]     # objects that change data capture has to be on for
    steps:
      - {create: Lead, as: brenda, values: {LastName: Mcclure, Company: Cadinal Inc.}}
      - {later: 1}                                      # seconds; a clock that can be moved is moved
      - {convert: brenda, origin: devconsole}            # `origin`: the client, if it is not the vendor's pages
      - {update: brenda, values: {Phone: "1"}, faults: {duplicate: {after: 0}}}

`verbs.py` has the verbs and `play.py` the forms of values. A file is read once, and checked whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sfcdc_assets.emulator.control.control_route import ControlError
from sfcdc_assets.emulator.control.fault_control import OPTIONS, fault_of
from sfcdc_assets.emulator.errors import ScenarioFileError, UnknownScenarioError
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.scenarios.play import VALUE_FORMS
from sfcdc_assets.emulator.scenarios.verbs import CHOICES, ORG_VERBS, RECORD_VERBS, SETUP_VERBS

FOLDER = Path(__file__).parent
TOGETHER, LATER = "together", "later"
_EVERYWHERE = frozenset({"origin", "faults"})
_VERBS = {**RECORD_VERBS, **SETUP_VERBS, **ORG_VERBS}


@dataclass(frozen=True)
class Step:
    """One step. `parts` are what happens in one transaction, or the step itself."""

    verb: str
    said: str
    parts: tuple[Mapping[str, Any], ...]
    origin: str | None = None
    faults: Mapping[Fault, Mapping[str, str | int]] | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """`happens`: in the org; `received`: what a subscriber gets of it."""

    name: str
    title: str
    happens: str
    received: str
    captures: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def described(self) -> dict[str, str]:
        """What people read of it."""
        return {"title": self.title, "happens": self.happens, "received": self.received}

    @property
    def channels(self) -> tuple[str, ...]:
        """The custom channels that its steps make."""
        return tuple(part["channel"] for step in self.steps for part in step.parts if step.verb == "channel")


@cache
def scenarios() -> Mapping[str, Scenario]:
    """All of them by name, in the order of their files' names."""
    return {path.stem: load_scenario(path) for path in sorted(FOLDER.glob("*.yaml"))}


def scenario_of(name: str) -> Scenario:
    """Return the scenario of a name. Raise UnknownScenarioError where there is none."""
    if name not in scenarios():
        raise UnknownScenarioError(name, scenarios())
    return scenarios()[name]


def load_scenario(path: Path) -> Scenario:
    """Load a scenario. Raise ScenarioFileError for a file that holds none."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ScenarioFileError(path.name, "", f"it cannot be read ({' '.join(str(error).split())})") from None
    keys = ("title", "happens", "received", "captures", "steps")
    if not isinstance(document, dict) or document.keys() != set(keys):
        raise ScenarioFileError(path.name, "", f"it needs {', '.join(keys)}, and nothing else")
    steps = tuple(_step(path.name, f"step {number}", entry) for number, entry in enumerate(document["steps"], start=1))
    title, happens, received = (" ".join(str(document[name]).split()) for name in keys[:3])
    return Scenario(path.stem, title, happens, received, tuple(document["captures"]), steps)


def _step(file: str, place: str, entry: object) -> Step:
    if not isinstance(entry, dict) or not entry:
        raise ScenarioFileError(file, place, "it is not of the form `- {verb: what, option: value}`")
    verb = next(iter(entry))
    if verb == LATER:
        return Step(verb, f"{entry[verb]} s later", (), seconds=float(entry[verb]))
    own = {name: value for name, value in entry.items() if name not in _EVERYWHERE}
    inner: Sequence[Any] = entry[verb] if verb == TOGETHER else [own]
    parts = tuple(_checked(file, place, part, RECORD_VERBS if verb == TOGETHER else _VERBS) for part in inner)
    said = ", ".join(_VERBS[next(iter(part))].said(part) for part in parts)
    return Step(verb, said, parts, entry.get("origin"), _faults(file, place, entry.get("faults", {})))


def _checked(file: str, place: str, part: Any, verbs: Mapping[str, Any]) -> Mapping[str, Any]:
    verb = next(iter(part)) if isinstance(part, dict) and part else ""
    if verb not in verbs:
        raise ScenarioFileError(file, place, f"{verb!r} is no verb; there are {', '.join((*verbs, TOGETHER, LATER))}")
    known = verbs[verb]
    options = part.keys() - {verb}
    missing, unknown = set(known.needs) - options, options - {*known.needs, *known.takes}
    if missing or unknown:
        allowed = ", ".join((*known.needs, *known.takes)) or "none"
        raise ScenarioFileError(file, place, f"{verb} has the options {allowed}, not {', '.join(sorted(options))}")
    if verb in CHOICES and part[verb] not in CHOICES[verb]:
        raise ScenarioFileError(file, place, f"{verb} is one of {', '.join(sorted(CHOICES[verb]))}")
    values = part.get("values", {})
    for name, value in values.items() if isinstance(values, dict) else ():
        form = next((key for key in VALUE_FORMS if isinstance(value, dict) and key in value), None)
        if isinstance(value, dict) and (form is None or value.keys() - {form} - VALUE_FORMS[form]):
            raise ScenarioFileError(file, place, f"{value} is no value of {name}")
    checked: Mapping[str, Any] = part
    return checked


def _faults(file: str, place: str, faults: Mapping[str, Any]) -> Mapping[Fault, Mapping[str, str | int]]:
    try:
        found = {fault_of(name): dict(options or {}) for name, options in faults.items()}
    except ControlError as error:
        raise ScenarioFileError(file, place, str(error)) from None
    for fault, options in found.items():
        if options.keys() - set(OPTIONS.get(fault, ())):
            raise ScenarioFileError(file, place, f"{fault} has the options {', '.join(OPTIONS.get(fault, ()))}")
    return found
