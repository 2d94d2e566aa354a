"""Scenarios as buttons, and the org's own traffic as a switch."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError
from sfcdc_assets.emulator.control.traffic_control import set_traffic_rate
from sfcdc_assets.emulator.errors import ScenarioRefusedError, UnknownScenarioError
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.pages.event_view import event_views
from sfcdc_assets.emulator.pages.site import PAGES, PageRequest, Site
from sfcdc_assets.emulator.scenarios.scenario import scenario_of, scenarios

_EVENTS = 15
_PATH = f"{PAGES}/scenarios"
_NAMED = 3


def scenario_routes(site: Site) -> list[Route]:
    """Return the routes of the page, its buttons, and the switch."""
    running = site.running

    def page(request: PageRequest) -> Response:
        newest = running.feed.newest(_EVENTS)
        return site.page(
            request,
            "scenarios.html",
            scenarios=list(scenarios().values()),
            rate=running.traffic.rate,
            events=event_views(newest.events),
            next_after=newest.next_after,
            most_events=_EVENTS,
        )

    def play(request: PageRequest) -> Response:
        name = request.path["scenario"]
        try:
            made = [each for step in running.scenarios.play(name) for each in step.transactions]
        except (UnknownScenarioError, ScenarioRefusedError) as error:
            raise ControlError(str(error)) from None
        return site.done(f"{scenario_of(name).title}: {'; '.join(map(_described, made))}.", _PATH)

    def traffic(request: PageRequest) -> Response:
        set_traffic_rate(running.traffic, {"rate": request.sent("rate", "0")})
        rate = running.traffic.rate
        return site.done(f"Traffic: {rate:g} transactions a second." if rate else "Traffic is off.", _PATH)

    return [
        site.route("/scenarios", page),
        site.route("/scenarios/{scenario}", play, "POST"),
        site.route("/traffic", traffic, "POST"),
    ]


def _described(transaction: Transaction) -> str:
    """Write what a transaction did, such as `UPDATE of Contact 003..., 003...`."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for change in transaction.changes:
        kinds.setdefault((change.change_type, change.entity), []).append(change.record_id)
    return ", ".join(
        f"{change_type} of {entity} {', '.join(ids[:_NAMED])}"
        + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
        for (change_type, entity), ids in kinds.items()
    )
