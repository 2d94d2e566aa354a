"""Faults from a file: which, how often, and now and then at times that follow from a seed.

    seed: 7
    faults:
      - {fault: duplicate, times: 5}                          # at the next five occasions
      - {fault: stream_reset, every: 60}                      # about once a minute, as long as the org is served
      - {fault: rest:unavailable, every: 20, path: /query, retry_after: 2}

`every` is the mean of the seconds between two occasions. The same seed gives the same times.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import yaml

from sfcdc_assets.emulator.control.control_route import ControlError
from sfcdc_assets.emulator.control.fault_control import (
    arm_fault,
    arm_rest_fault,
    check_options,
    fault_of,
    rest_fault_of,
)
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.faults.rest_faults import RestFault, RestFaults
from sfcdc_assets.runtime.errors import SfcdcError

_REST = "rest:"


class FaultFileError(SfcdcError):
    """A file of faults cannot be read or says something that is no fault. Names the file and the place."""

    def __init__(self, path: Path, place: str, problem: str) -> None:
        self.path = path
        self.place = place
        super().__init__(f"{path}{f', {place}' if place else ''}: {problem}.")


@dataclass(frozen=True)
class PlannedFault:
    """One entry. `every`: mean seconds between two occasions; None: at once, and not again."""

    fault: Fault | RestFault
    every: float | None
    parameters: Mapping[str, Any]
    """`times` and the fault's options."""

    def arm(self, faults: Faults, rest_faults: RestFaults) -> None:
        """Arm the plan's faults as the control resource does. Raises ControlError for an option that is no value."""
        if isinstance(self.fault, Fault):
            arm_fault(faults, self.fault, self.parameters)
        else:
            arm_rest_fault(rest_faults, self.fault, self.parameters)


@dataclass(frozen=True)
class FaultPlan:
    """What a file says."""

    seed: int
    faults: tuple[PlannedFault, ...]

    def occasions(self) -> Iterator[tuple[float, PlannedFault]]:
        """Seconds from the start, with the fault that is armed then, in order; without an end if any has `every`."""
        streams = [self._occasions(place, each) for place, each in enumerate(self.faults)]
        for seconds, place in heapq.merge(*streams):
            yield seconds, self.faults[place]

    def _occasions(self, place: int, planned: PlannedFault) -> Iterator[tuple[float, int]]:
        if planned.every is None:
            yield 0.0, place
            return
        dice = Random(f"faults:{self.seed}:{place}")
        rate = 1 / planned.every
        for seconds in accumulate(iter(lambda: dice.expovariate(rate), None)):
            yield seconds, place


def load_fault_plan(path: Path) -> FaultPlan:
    """Load a fault plan. Raise FaultFileError for a file that holds none."""
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise FaultFileError(path, "", f"it cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FaultFileError(path, "", f"it is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or not isinstance(document.get("faults"), list):
        raise FaultFileError(path, "", "it needs a list of `faults`")
    unknown = document.keys() - {"seed", "faults"}
    if unknown:
        raise FaultFileError(path, "", f"{', '.join(map(str, unknown))} is not known; there are seed and faults")
    seed = document.get("seed", 0)
    if type(seed) is not int:
        raise FaultFileError(path, "seed", "it must be a whole number")
    planned = [_planned(path, f"entry {number}", entry) for number, entry in enumerate(document["faults"], start=1)]
    return FaultPlan(seed, tuple(planned))


def _planned(path: Path, place: str, entry: object) -> PlannedFault:
    if not isinstance(entry, dict) or not isinstance(entry.get("fault"), str):
        raise FaultFileError(path, place, "it needs a `fault`, by its name")
    name, every = entry["fault"], entry.get("every")
    try:
        fault = rest_fault_of(name.removeprefix(_REST)) if name.startswith(_REST) else fault_of(name)
        if every is not None and (isinstance(every, bool) or not isinstance(every, int | float) or every <= 0):
            raise ControlError("every must be a number of seconds greater than 0")
        parameters = {key: value for key, value in entry.items() if key not in ("fault", "every")}
        check_options(fault, parameters, "every", "times")
        planned = PlannedFault(fault, every, parameters)
        planned.arm(Faults(), RestFaults())
    except ControlError as error:
        raise FaultFileError(path, place, str(error)) from None
    return planned


class PlannedFaults:
    """Arms the faults of a plan when their time comes: a context manager around the time in which an org is served."""

    def __init__(self, plan: FaultPlan, faults: Faults, rest_faults: RestFaults) -> None:
        self._plan = plan
        self._faults = faults
        self._rest_faults = rest_faults
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_arming, daemon=True, name="faults")

    def __enter__(self) -> PlannedFaults:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _keep_arming(self) -> None:
        began = time.monotonic()
        for seconds, planned in self._plan.occasions():
            if self._stopping.wait(max(0.0, began + seconds - time.monotonic())):
                return
            planned.arm(self._faults, self._rest_faults)
