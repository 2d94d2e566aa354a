"""The first page: what the org holds, what happens in it, who listens, and what a day still allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from starlette.responses import Response

from sfcdc_assets.emulator.events.subscribers import subscribers
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.pages.event_view import event_views
from sfcdc_assets.emulator.pages.site import PageRequest, Site

_EVENTS = 10


@dataclass(frozen=True)
class ObjectCount:
    """Records of an object. `is_selected`: its changes raise events on the channel of all objects."""

    name: str
    label: str
    live: int
    deleted: int
    is_selected: bool


@dataclass(frozen=True)
class Allowance:
    """What a day allows. `percent` of it is used, 0 to 100."""

    name: str
    most: int
    used: int
    percent: int


def home(site: Site, request: PageRequest) -> Response:
    """Show the page."""
    running = site.running
    org, bus = running.org, running.bus
    page = running.feed.newest(_EVENTS)
    with org.database.lock:
        counts = list(_counts(site))
    return site.page(
        request,
        "home.html",
        counts=counts,
        events=event_views(page.events),
        next_after=page.next_after,
        most_events=_EVENTS,
        subscribers=subscribers(org, bus, running.service, running.cometd),
        last_number=bus.last_number,
        allowances=list(_allowances(site)),
        delivered=running.service.meter.total,
        rate=running.traffic.rate,
        settings_file=running.settings_file,
        armed=sum(running.faults.armed(fault) for fault in Fault)
        + sum(each.times for each in running.rest_faults.armed()),
    )


def _counts(site: Site) -> Iterator[ObjectCount]:
    org = site.running.org
    for definition in org.definitions.values():
        live = org.count(definition.name)
        deleted = org.count(definition.name, include_deleted=True) - live
        is_selected = definition.name in org.selected_entities
        yield ObjectCount(definition.name, definition.label, live, deleted, is_selected)


def _allowances(site: Site) -> Iterator[Allowance]:
    for name, (most, left) in site.running.allowances().items():
        used = most - left
        yield Allowance(name, most, used, min(100, round(100 * used / most)) if most else 100)
