"""Plays scenarios in one org, one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

from sfcdc_assets.emulator.definitions.object_file import stock_definitions
from sfcdc_assets.emulator.errors import RecordError, ScenarioRefusedError, TrafficRefusedError
from sfcdc_assets.emulator.faults.faults import Faults
from sfcdc_assets.emulator.org.clock import AdvancingClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.record_editing import ORIGIN_OF_PAGES
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.scenarios.play import Play
from sfcdc_assets.emulator.scenarios.scenario import LATER, Scenario, Step, scenario_of
from sfcdc_assets.emulator.scenarios.verbs import ORG_VERBS, RECORD_VERBS, SETUP_VERBS
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator, TrafficMix

_NOTHING = {kind.name: 0.0 for kind in fields(TrafficMix)}
_ORIGIN = "com/salesforce/api/soap/65.0;client={}"


@dataclass(frozen=True)
class StepPlayed:
    """What a step did, in words and in transactions."""

    said: str
    transactions: tuple[Transaction, ...]


class ScenarioStage:
    """Plays in one org. The same seed on the same org plays the same."""

    def __init__(
        self,
        org: EmulatedOrg,
        faults: Faults,
        seed: int = 0,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """`pause`: waits so many seconds where a step is later and the org's clock cannot be moved."""
        self._org = org
        self._faults = faults
        self._seed = seed
        self._pause = pause or threading.Event().wait
        self._turn = threading.Lock()
        self._generators: dict[str, TrafficGenerator] = {}

    def play(self, name: str) -> list[StepPlayed]:
        """All steps. Raises UnknownScenarioError, and ScenarioRefusedError where the org refuses a step."""
        return list(self.steps(scenario_of(name)))

    def steps(self, scenario: Scenario) -> Iterator[StepPlayed]:
        """Each step when it has happened. Raises ScenarioRefusedError, and then leaves no fault armed."""
        with self._turn:
            play = Play(self._org, lambda kind: self._generator(kind).step())
            captured = self._capture(scenario)
            if captured:
                yield StepPlayed(f"change data capture is on for {', '.join(captured)}", ())
            for step in scenario.steps:
                if step.verb == LATER:
                    self._let_pass(step.seconds)
                    yield StepPlayed(step.said, ())
                    continue
                try:
                    yield StepPlayed(step.said, self._happened(play, step))
                except (RecordError, TrafficRefusedError) as error:
                    reason = str(error).rstrip(".")
                    raise ScenarioRefusedError(scenario.name, step.said, reason) from error

    def _capture(self, scenario: Scenario) -> list[str]:
        """Objects that were not captured before, or not even there."""
        stock = {definition.name: definition for definition in stock_definitions()}
        with self._org.database.lock:
            for entity in scenario.captures:
                if entity not in self._org.definitions:
                    self._org.setup.add_object(stock[entity], selected=False)
            wanted = [entity for entity in scenario.captures if entity not in self._org.selected_entities]
            self._org.selected_entities += wanted
        return wanted

    def _happened(self, play: Play, step: Step) -> tuple[Transaction, ...]:
        """Return what happened. Nobody else's transaction comes between, so that a fault strikes the step's own."""
        with self._org.database.lock:
            before = self._org.last_commit_number
            armed = {fault: self._faults.armed(fault) for fault in step.faults or {}}
            for fault, options in (step.faults or {}).items():
                self._faults.arm(fault, 1, **options)
            try:
                self._act(play, step)
            finally:
                for fault, others in armed.items():
                    if self._faults.armed(fault) > others:
                        self._faults.take(fault)
            return tuple(self._org.transactions(before))

    def _act(self, play: Play, step: Step) -> None:
        first = next(iter(step.parts[0]))
        if first not in RECORD_VERBS:
            (SETUP_VERBS.get(first) or ORG_VERBS[first]).act(play, step.parts[0])
            return
        origin = ORIGIN_OF_PAGES if step.origin is None else step.origin and _ORIGIN.format(step.origin)
        by_org = first in ("geocode", "archive")
        with self._org.transaction(
            user_id=self._org.users.automated_process if by_org else None, change_origin="" if by_org else origin
        ) as work:
            for part in step.parts:
                RECORD_VERBS[next(iter(part))].act(play, work, part)

    def _let_pass(self, seconds: float) -> None:
        clock = self._org.clock
        if isinstance(clock, AdvancingClock):
            clock.advance(round(seconds * 1000))
        else:
            self._pause(seconds)

    def _generator(self, kind: str) -> TrafficGenerator:
        if kind not in self._generators:
            mix = TrafficMix(**{**_NOTHING, kind: 1.0})
            self._generators[kind] = TrafficGenerator(
                self._org, self._seed, mix, of=lambda: self._org.selected_entities
            )
        return self._generators[kind]
