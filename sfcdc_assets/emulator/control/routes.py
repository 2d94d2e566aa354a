"""All control routes of a served org, beside those of `rest/control.py`."""

from __future__ import annotations

from starlette.routing import Route

from sfcdc_assets.emulator.control.bus_control import bus_routes
from sfcdc_assets.emulator.control.event_control import event_routes
from sfcdc_assets.emulator.control.fault_control import fault_routes
from sfcdc_assets.emulator.control.field_control import field_routes
from sfcdc_assets.emulator.control.permission_control import permission_routes
from sfcdc_assets.emulator.control.record_control import record_routes
from sfcdc_assets.emulator.control.setting_control import setting_routes
from sfcdc_assets.emulator.control.traffic_control import traffic_routes
from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub_service import PubSubService
from sfcdc_assets.emulator.rest.rest_faults import RestFaults
from sfcdc_assets.emulator.sessions import Sessions


def all_control_routes(
    org: EmulatedOrg, bus: EventBus, service: PubSubService, sessions: Sessions, rest_faults: RestFaults
) -> list[Route]:
    """See the functions for what each route does."""
    return [
        *fault_routes(service.faults, rest_faults),
        *setting_routes(org),
        *record_routes(org),
        *field_routes(org),
        *permission_routes(org),
        *bus_routes(org, bus, service, sessions),
        *event_routes(org, service.publisher),
        *traffic_routes(org, bus),
    ]
