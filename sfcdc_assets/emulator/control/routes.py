"""All control routes of a served org, beside those of `rest/control.py`."""

from __future__ import annotations

from starlette.routing import Route

from sfcdc_assets.emulator.control.bus_control import bus_routes
from sfcdc_assets.emulator.control.event_control import event_routes
from sfcdc_assets.emulator.control.fault_control import fault_routes
from sfcdc_assets.emulator.control.feed_control import feed_routes
from sfcdc_assets.emulator.control.field_control import field_routes
from sfcdc_assets.emulator.control.permission_control import permission_routes
from sfcdc_assets.emulator.control.polling_control import polling_routes
from sfcdc_assets.emulator.control.record_change_control import record_change_routes
from sfcdc_assets.emulator.control.record_control import record_routes
from sfcdc_assets.emulator.control.scenario_control import scenario_routes
from sfcdc_assets.emulator.control.setting_control import setting_routes
from sfcdc_assets.emulator.control.traffic_control import traffic_routes
from sfcdc_assets.emulator.serving.running_org import RunningOrg


def all_control_routes(running: RunningOrg) -> list[Route]:
    """See the functions for what each route does."""
    org, bus = running.org, running.bus
    return [
        *fault_routes(running.faults, running.rest_faults),
        *setting_routes(org),
        *record_change_routes(running.editing),
        *record_routes(org),
        *field_routes(org),
        *permission_routes(org),
        *polling_routes(org),
        *bus_routes(org, bus, running.service, running.sessions),
        *event_routes(org, running.service.publisher),
        *feed_routes(running),
        *scenario_routes(running),
        *traffic_routes(org, bus, running.traffic),
    ]
