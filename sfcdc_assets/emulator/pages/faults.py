"""Faults as switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.fault_control import (
    OPTIONS,
    REST_OPTIONS,
    arm_fault,
    arm_rest_fault,
    fault_of,
    rest_fault_of,
)
from sfcdc_assets.emulator.faults import faults as stream_side
from sfcdc_assets.emulator.faults import rest_faults as rest_side
from sfcdc_assets.emulator.faults.fault_advice import ADVICE, REST_ADVICE
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.pages.site import PAGES, Handler, PageRequest, Site

_PATH = f"{PAGES}/faults"


@dataclass(frozen=True)
class FaultSwitch:
    """A fault as the page shows it. `armed`: how often it will still happen; `struck`: how often it has."""

    name: str
    what: str
    advice: str
    armed: int
    struck: int
    options: tuple[str, ...]
    action: str
    """Where its form is sent."""


@dataclass(frozen=True)
class FaultGroup:
    """Faults that strike at the same place."""

    title: str
    what: str
    switches: tuple[FaultSwitch, ...]


def fault_routes(site: Site) -> list[Route]:
    """Return the routes of the page, and of what its switches and buttons do."""
    running = site.running

    def page(request: PageRequest) -> Response:
        return site.page(request, "faults.html", groups=list(_groups(site)))

    def switch(named: Callable[[str], Any], faults: Any, arm: Callable[..., None], where: str) -> Handler:
        """Return what a switch does for one side's faults."""

        def switched(request: PageRequest) -> Response:
            fault = named(request.path["fault"])
            if request.sent("do") == "off":
                faults.disarm(fault)
                return site.done(f"{where}{fault} is off.", _PATH)
            arm(faults, fault, _parameters(request))
            return site.done(f"{where}{fault} is armed.", _PATH)

        return switched

    def all_off(_request: PageRequest) -> Response:
        running.faults.disarm()
        running.rest_faults.disarm()
        return site.done("All faults are off.", _PATH)

    return [
        site.route("/faults", page),
        site.route("/faults/off", all_off, "POST"),
        site.route("/faults/{fault}", switch(fault_of, running.faults, arm_fault, ""), "POST"),
        site.route(
            "/rest-faults/{fault}", switch(rest_fault_of, running.rest_faults, arm_rest_fault, "REST: "), "POST"
        ),
    ]


def _parameters(request: PageRequest) -> dict[str, str]:
    """Return what was filled in: an empty field is not sent."""
    return {name: values[-1].strip() for name, values in request.form.items() if values[-1].strip()}


def _groups(site: Site) -> Iterator[FaultGroup]:
    faults = site.running.faults
    for title, what, kinds in _GROUPS:
        yield FaultGroup(
            title,
            what,
            tuple(
                FaultSwitch(
                    fault,
                    stream_side.DESCRIPTIONS[fault],
                    ADVICE[fault],
                    faults.armed(fault),
                    faults.struck(fault),
                    OPTIONS.get(fault, ()),
                    f"{PAGES}/faults/{fault}",
                )
                for fault in kinds
            ),
        )
    armed = site.running.rest_faults.armed()
    yield FaultGroup(
        "REST",
        "Each strikes the next requests, whatever their token; a path such as /query confines it.",
        tuple(
            FaultSwitch(
                fault,
                rest_side.DESCRIPTIONS[fault],
                REST_ADVICE[fault],
                sum(each.times for each in armed if each.fault is fault),
                site.running.rest_faults.struck(fault),
                REST_OPTIONS[fault],
                f"{PAGES}/rest-faults/{fault}",
            )
            for fault in RestFault
        ),
    )


_COMETD = tuple(fault for fault in Fault if fault.startswith("cometd_"))
_CALLS = (
    Fault.STREAM_RESET,
    Fault.SILENT_STREAM,
    Fault.STREAM_AUTH_ERROR,
    Fault.STREAM_UNAVAILABLE,
    Fault.STREAM_REFUSED,
    Fault.STREAM_PAUSE,
    Fault.LATE_ANSWER,
    Fault.SLOW_NETWORK,
    Fault.GOAWAY,
    Fault.UNAVAILABLE,
    Fault.CALL_REFUSED,
    Fault.SCHEMA_REFUSED,
    Fault.SCHEMA_NOT_PERMITTED,
)
_ORG = (
    Fault.STALE_MODSTAMP,
    Fault.REST_LAG,
    Fault.BULK_JOB_STUCK,
    Fault.CLOCK_SKEW,
    Fault.PERMISSION_WITHDRAWN,
    Fault.INSTANCE_MOVE,
    Fault.REPLAY_IDS_EXPIRED,
    Fault.TOKENS_EXPIRED,
)
_EVENTS = tuple(fault for fault in Fault if fault not in (*_COMETD, *_CALLS, *_ORG))
_GROUPS = (
    ("Events", "Each strikes the next changes of records.", _EVENTS),
    (
        "The org",
        "What an administrator or Salesforce itself brings about. What lasts ends after `seconds`, or when it is "
        "switched off.",
        _ORG,
    ),
    ("Pub/Sub API", "Each strikes the next calls, or a stream that is open.", _CALLS),
    ("Streaming API (CometD)", "Each strikes the next messages of a client.", _COMETD),
)
