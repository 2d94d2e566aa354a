"""Arming faults: `/emulator/faults` for calls, streams and events, `/emulator/rest-faults` for REST."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator import faults as stream_side
from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, whole_number
from sfcdc_assets.emulator.faults import Fault, Faults
from sfcdc_assets.emulator.rest import rest_faults as rest_side
from sfcdc_assets.emulator.rest.rest_faults import RestFault, RestFaults

OPTIONS = {
    Fault.OVERFLOW: ("threshold",),
    Fault.DUPLICATE: ("after",),
    Fault.ENRICHED: ("fields",),
    Fault.STREAM_PAUSE: ("after", "seconds"),
    Fault.LATE_ANSWER: ("seconds",),
    Fault.GOAWAY: ("seconds",),
}
"""What each fault takes beside `times`."""
REST_OPTIONS = ("path", "method", "retry_after", "seconds")
"""What each of REST takes."""


def fault_routes(faults: Faults, rest_faults: RestFaults) -> list[Route]:
    """`GET /emulator/faults` describes all faults, says what is armed, and how often each has struck. `DELETE` disarms
    all, and at `/emulator/faults/{fault}` and `/emulator/rest-faults/{fault}` one.

    `POST /emulator/faults/{fault}?times=N` arms one, with its options: `threshold` (overflow), `after` (duplicate),
    `fields` (enriched), `after` and `seconds` (stream_pause), `seconds` (late_answer).
    `POST /emulator/rest-faults/{fault}?times=N&path=/query&method=GET&retry_after=S&seconds=S` arms one of REST.
    """

    def listing(parameters: Parameters) -> Any:
        armed: list[dict[str, Any]] = [
            {"fault": fault, "times": faults.armed(fault)} for fault in Fault if faults.armed(fault)
        ]
        return {
            "armed": armed + [asdict(one) for one in rest_faults.armed()],
            "struck": {
                **{fault: faults.struck(fault) for fault in Fault if faults.struck(fault)},
                **{f"rest:{fault}": rest_faults.struck(fault) for fault in RestFault if rest_faults.struck(fault)},
            },
            "faults": dict(stream_side.DESCRIPTIONS),
            "rest_faults": dict(rest_side.DESCRIPTIONS),
        }

    def arm(parameters: Parameters) -> Any:
        fault = fault_of(parameters["fault"])
        arm_fault(faults, fault, parameters)
        return {"armed": faults.armed(fault)}

    def arm_rest(parameters: Parameters) -> Any:
        arm_rest_fault(rest_faults, rest_fault_of(parameters["fault"]), parameters)
        return {"armed": sum(one.times for one in rest_faults.armed())}

    def disarm(parameters: Parameters) -> Any:
        faults.disarm(fault_of(parameters["fault"]) if "fault" in parameters else None)
        if "fault" not in parameters:
            rest_faults.disarm()
        return {}

    def disarm_rest(parameters: Parameters) -> Any:
        rest_faults.disarm(rest_fault_of(parameters["fault"]))
        return {}

    return [
        control_route("/faults", "GET", listing),
        control_route("/faults", "DELETE", disarm),
        control_route("/faults/{fault}", "POST", arm),
        control_route("/faults/{fault}", "DELETE", disarm),
        control_route("/rest-faults/{fault}", "POST", arm_rest),
        control_route("/rest-faults/{fault}", "DELETE", disarm_rest),
    ]


def arm_fault(faults: Faults, fault: Fault, parameters: Parameters) -> None:
    """Arm a fault as often as `times` says (once), with those of the parameters that are its options. Raises
    ControlError."""
    options: dict[str, str | int] = {}
    for name in OPTIONS.get(fault, ()):
        if name in parameters:
            options[name] = str(parameters[name]) if name == "fields" else whole_number(parameters, name, 0)
    faults.arm(fault, whole_number(parameters, "times", 1, least=1), **options)


def arm_rest_fault(rest_faults: RestFaults, fault: RestFault, parameters: Parameters) -> None:
    """The same for one of REST: its options are `path`, `method`, `retry_after` and `seconds`. Raises ControlError."""
    rest_faults.arm(
        fault,
        whole_number(parameters, "times", 1, least=1),
        path=str(parameters.get("path", "")),
        method=str(parameters.get("method", "")),
        retry_after=whole_number(parameters, "retry_after", 0) if "retry_after" in parameters else None,
        seconds=whole_number(parameters, "seconds", 0) if "seconds" in parameters else None,
    )


def fault_of(name: str) -> Fault:
    try:
        return Fault(name)
    except ValueError:
        raise ControlError(f"faults are {', '.join(Fault)}") from None


def rest_fault_of(name: str) -> RestFault:
    try:
        return RestFault(name)
    except ValueError:
        raise ControlError(f"faults of REST are {', '.join(RestFault)}") from None
