"""Traffic on demand, so that an org in a process of its own can be driven from another."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, whole_number
from sfcdc_assets.emulator.errors import TrafficRefusedError
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, LOAD_MIX, TrafficGenerator, TrafficMix
from sfcdc_assets.emulator.traffic.traffic_switch import TrafficSwitch

_MIXES = {"plain": TrafficMix(), "full": FULL_MIX, "load": LOAD_MIX}


def traffic_routes(org: EmulatedOrg, bus: EventBus, switch: TrafficSwitch) -> list[Route]:
    """`POST /emulator/traffic {"events": N}` or `{"transactions": N}`, with `seed`, `holes` (0 to 1) and `mix` (`full`,
    `plain` or `load`) as one likes: makes them as fast as possible and answers counts.

    Requests with the same seed, holes and mix go on where the last one stopped.
    `POST /emulator/traffic/rate {"rate": R}` has the org make R transactions a second by itself, 0 none; `GET` answers
    the rate.
    """
    generators: dict[tuple[int, float, str], TrafficGenerator] = {}
    turn = threading.Lock()

    def traffic(parameters: Parameters) -> Any:
        events = whole_number(parameters, "events", 0)
        transactions = whole_number(parameters, "transactions", 0)
        if bool(events) == bool(transactions):
            raise ControlError("give either events or transactions, a number greater than 0")
        with turn:
            generator = _generator(parameters)
            holes = Counter(generator.holes.made)
            published, changes = bus.last_number, Counter(generator.records.changes)
            try:
                made = generator.run(events=events, transactions=transactions)
            except TrafficRefusedError as error:
                raise ControlError(str(error)) from None
            return {
                "transactions": made,
                "events": bus.last_number - published,
                "changes": generator.records.changes - changes,
                "holes": generator.holes.made - holes,
            }

    def _generator(parameters: Parameters) -> TrafficGenerator:
        seed, mix = whole_number(parameters, "seed", 0), str(parameters.get("mix", "full"))
        try:
            holes = float(parameters.get("holes", 0))
            if mix not in _MIXES:
                raise ControlError(f"mix must be one of {', '.join(_MIXES)}")
            key = (seed, holes, mix)
            if key not in generators:
                generators[key] = TrafficGenerator(org, seed, _MIXES[mix], bus=bus, holes=holes)
        except (TypeError, ValueError):
            raise ControlError("holes must be a number from 0 to 1") from None
        return generators[key]

    def rate(_parameters: Parameters) -> Any:
        return {"rate": switch.rate}

    def set_rate(parameters: Parameters) -> Any:
        set_traffic_rate(switch, parameters)
        return {"rate": switch.rate}

    return [
        control_route("/traffic", "POST", traffic),
        control_route("/traffic/rate", "GET", rate),
        control_route("/traffic/rate", "POST", set_rate),
    ]


def set_traffic_rate(switch: TrafficSwitch, parameters: Parameters) -> None:
    """Switch traffic to `rate` transactions a second. Raises ControlError."""
    try:
        switch.set(float(parameters.get("rate", "")))
    except (TypeError, ValueError):
        raise ControlError("rate must be a number of transactions a second, from 0 to 10000") from None
