"""Things that happen in orgs and that a subscriber has to get right, each to be played with one click."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import islice

from sfcdc_assets.emulator.faults import Fault, Faults
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.traffic import TrafficGenerator, TrafficMix
from sfcdc_assets.emulator.traffic_errors import TrafficRefusedError
from sfcdc_assets.emulator.transaction import Transaction
from sfcdc_assets.errors import SfcdcError

_NOTHING = {kind.name: 0.0 for kind in fields(TrafficMix)}


@dataclass(frozen=True)
class Scenario:
    """Kinds of the traffic's transactions, made in order; `faults` are armed before, with their options."""

    name: str
    title: str
    what: str
    """What happens, and what a subscriber receives."""
    kinds: tuple[str, ...]
    faults: Mapping[Fault, Mapping[str, int]] = field(default_factory=dict)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("create", "A record is created", "One CREATE event with all its values.", ("create",)),
        Scenario(
            "update",
            "A record changes",
            "One UPDATE event that carries the changed fields only; the others are not null, they are missing.",
            ("update",),
        ),
        Scenario(
            "mass-update",
            "Several records get the same values",
            "One UPDATE event that names all their ids.",
            ("bulk_update",),
        ),
        Scenario(
            "several-objects",
            "One transaction over several objects",
            "Events of several kinds with one transactionKey and growing sequenceNumber: all or none may be applied.",
            ("several_objects",),
        ),
        Scenario(
            "delete-undelete",
            "A record is deleted and restored",
            "DELETE, which carries no values, then UNDELETE, which carries them all.",
            ("delete", "undelete"),
        ),
        Scenario(
            "lead-conversion",
            "A lead is converted",
            "CREATE of an account, a contact and, as a rule, an opportunity, then an UPDATE of the lead without "
            "LastModifiedDate.",
            ("convert_lead",),
        ),
        Scenario(
            "merge",
            "Records are merged",
            "DELETE of the losers, UPDATE of the winner, and UPDATEs of records that now refer to the winner.",
            ("merge",),
        ),
        Scenario(
            "large-text",
            "A few lines of a large text change",
            "An UPDATE event with the text as a diff (diffFields) against the value before.",
            ("text_edit",),
        ),
        Scenario(
            "geocode",
            "The org fills in coordinates",
            "An UPDATE by the automated process, with parts of an address and no LastModifiedDate.",
            ("geocode",),
        ),
        Scenario(
            "hard-delete",
            "A record is deleted for good",
            "A DELETE event; the record is not in the recycle bin.",
            ("hard_delete",),
        ),
        Scenario(
            "gap",
            "The org cannot make an event",
            "A GAP_* event with the record's id and no values: read the record back.",
            ("update",),
            {Fault.INTERNAL_ERROR: {}},
        ),
        Scenario(
            "overflow",
            "A transaction is too large",
            "A GAP_OVERFLOW event an object, without record ids: read all that changed since back.",
            ("bulk_update",),
            {Fault.OVERFLOW: {"threshold": 0}},
        ),
        Scenario(
            "lost-event",
            "An event is lost",
            "A record changes and no event says so: only a comparison with the org finds it.",
            ("update",),
            {Fault.LOST_EVENT: {}},
        ),
        Scenario(
            "duplicate",
            "An event is published twice",
            "The same EventUuid with another replay id: apply it once.",
            ("update",),
            {Fault.DUPLICATE: {"after": 0}},
        ),
    )
}
"""By name, in the order in which people see them."""


class UnknownScenarioError(SfcdcError):
    """There is no scenario of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no scenario {name}; there are {', '.join(SCENARIOS)}")


class ScenarioStage:
    """Plays scenarios in one org, one at a time. The same seed on the same org plays the same."""

    def __init__(self, org: EmulatedOrg, faults: Faults, seed: int = 0) -> None:
        self._org = org
        self._faults = faults
        self._seed = seed
        self._turn = threading.Lock()
        self._generators: dict[str, TrafficGenerator] = {}

    def play(self, name: str) -> list[Transaction]:
        """The transactions that it made. Raises UnknownScenarioError, or TrafficRefusedError where nothing in the org
        can change like that."""
        scenario = SCENARIOS.get(name)
        if scenario is None:
            raise UnknownScenarioError(name)
        with self._turn, self._org.database.lock:
            before = self._org.last_commit_number
            for fault, options in scenario.faults.items():
                self._faults.arm(fault, 1, **options)
            try:
                for kind in scenario.kinds:
                    self._generator(kind).step()
            except TrafficRefusedError:
                for fault in scenario.faults:
                    self._faults.take(fault)
                raise
            return list(islice(self._org.transactions(before), len(scenario.kinds)))

    def _generator(self, kind: str) -> TrafficGenerator:
        if kind not in self._generators:
            mix = TrafficMix(**{**_NOTHING, kind: 1.0})
            self._generators[kind] = TrafficGenerator(self._org, self._seed, mix, only_selected=True)
        return self._generators[kind]
