"""Arming faults: `/emulator/faults` for calls, streams and events, `/emulator/rest-faults` for REST."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError, Parameters, control_route, text, whole_number
from sfcdc_assets.emulator.faults import faults as stream_side
from sfcdc_assets.emulator.faults import rest_faults as rest_side
from sfcdc_assets.emulator.faults.faults import Fault, Faults
from sfcdc_assets.emulator.faults.rest_faults import REFUSALS, RestFault, RestFaults
from sfcdc_assets.emulator.pubsub.refusal_codes import CODES

OPTIONS = {
    Fault.OVERFLOW: ("threshold",),
    Fault.DUPLICATE: ("after",),
    Fault.ENRICHED: ("fields",),
    Fault.STREAM_PAUSE: ("after", "seconds"),
    Fault.STREAM_REFUSED: ("code",),
    Fault.LATE_ANSWER: ("seconds",),
    Fault.SLOW_NETWORK: ("seconds",),
    Fault.GOAWAY: ("seconds",),
    Fault.CALL_REFUSED: ("code",),
    Fault.COMETD_REFUSED: ("error",),
    Fault.COMETD_SLOW: ("seconds",),
    Fault.STALE_MODSTAMP: ("behind",),
    Fault.REST_LAG: ("behind", "seconds"),
    Fault.CLOCK_SKEW: ("ahead", "seconds"),
    Fault.PERMISSION_WITHDRAWN: ("entity", "seconds"),
}
"""What each fault takes beside `times`."""
REST_OPTIONS = {
    fault: ("path", "method", "retry_after", "seconds", *(("code",) if fault is RestFault.REFUSED else ()))
    for fault in RestFault
}
"""What each of REST takes."""
_BAYEUX_ERROR = re.compile(r"\d{3}::.+")


def fault_routes(faults: Faults, rest_faults: RestFaults) -> list[Route]:
    """`GET /emulator/faults` describes all faults, says what is armed, and how often each has struck. `DELETE` disarms
    all, and at `/emulator/faults/{fault}` and `/emulator/rest-faults/{fault}` one.

    `POST /emulator/faults/{fault}?times=N` arms one, with its options, which its description names; one that lasts
    begins, whatever `times` is.
    `POST /emulator/rest-faults/{fault}?times=N&path=/query&method=GET&retry_after=S&seconds=S` arms one of REST.
    """

    def listing(_parameters: Parameters) -> Any:
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
        check_options(fault, [name for name in parameters if name != "fault"], "times")
        arm_fault(faults, fault, parameters)
        return {"armed": faults.armed(fault)}

    def arm_rest(parameters: Parameters) -> Any:
        fault = rest_fault_of(parameters["fault"])
        check_options(fault, [name for name in parameters if name != "fault"], "times")
        arm_rest_fault(rest_faults, fault, parameters)
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
            options[name] = _option(parameters, name)
    faults.arm(fault, whole_number(parameters, "times", 1, least=1), **options)


def check_options(fault: Fault | RestFault, given: Collection[str], *others: str) -> None:
    """Raise ControlError if anything given is neither an option of the fault nor among `others`."""
    known = (*others, *(OPTIONS.get(fault, ()) if isinstance(fault, Fault) else REST_OPTIONS[fault]))
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise ControlError(f"{fault} has no option {', '.join(unknown)}; there are {', '.join(known)}")


def _option(parameters: Parameters, name: str) -> str | int:
    if name in ("fields", "entity"):
        return text(parameters, name)
    if name == "code":
        return _choice(text(parameters, name), CODES)
    if name == "error":
        error = text(parameters, name)
        if not _BAYEUX_ERROR.fullmatch(error):
            raise ControlError("error must be a code and a text, such as 403::User not enabled for streaming")
        return error
    return whole_number(parameters, name, 0)


def _choice(code: str, known: Collection[str]) -> str:
    if code not in known:
        raise ControlError(f"code must be one of {', '.join(known)}")
    return code


def arm_rest_fault(rest_faults: RestFaults, fault: RestFault, parameters: Parameters) -> None:
    """Arm a fault of REST as one of the streams is. Raises ControlError."""
    rest_faults.arm(
        fault,
        whole_number(parameters, "times", 1, least=1),
        path=str(parameters.get("path", "")),
        method=str(parameters.get("method", "")),
        retry_after=whole_number(parameters, "retry_after", 0) if "retry_after" in parameters else None,
        seconds=whole_number(parameters, "seconds", 0) if "seconds" in parameters else None,
        code=_choice(str(parameters.get("code", next(iter(REFUSALS)))), REFUSALS),
    )


def fault_of(name: str) -> Fault:
    """Return the fault of that name. Raises ControlError, which lists the names."""
    try:
        return Fault(name)
    except ValueError:
        raise ControlError(f"faults are {', '.join(Fault)}") from None


def rest_fault_of(name: str) -> RestFault:
    """Return the fault of REST of that name. Raises ControlError, which lists the names."""
    try:
        return RestFault(name)
    except ValueError:
        raise ControlError(f"faults of REST are {', '.join(RestFault)}") from None
