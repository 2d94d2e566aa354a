"""The event bus: what was published and delivered, and replay ids that expire at once."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import Parameters, control_route, truth
from sfcdc_assets.emulator.events.event_bus import EventBus
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.pubsub.pubsub_service import PubSubService
from sfcdc_assets.emulator.serving.sessions import Sessions


def bus_routes(org: EmulatedOrg, bus: EventBus, service: PubSubService, sessions: Sessions) -> list[Route]:
    """`GET /emulator/events` counts.

    `POST /emulator/replay-ids/expire` purges all retained events. `POST /emulator/replay-ids/move
    {"new_organization_id": true|false}` moves the org to an instance of another name: replay ids begin again and lower;
    with a new organization id (a refreshed sandbox) all tokens are worthless and open streams end with an
    authentication error. After either, all replay ids given out before are refused as corrupted.
    `POST /emulator/tokens/expire` makes all access tokens worthless; streams that are open go on.
    """

    def events(_parameters: Parameters) -> Any:
        return {
            "published": bus.last_number,
            "latest_replay_id": bus.latest_replay_id().hex(),
            "delivered": service.meter.total,
            "delivered_in_last_24_hours": service.meter.in_last_24_hours(),
            "delivered_more_than_once": len(service.meter.more_than_once()),
            "open_streams": service.open_streams,
        }

    def expire(_parameters: Parameters) -> Any:
        bus.expire()
        return {"latest_replay_id": bus.latest_replay_id().hex()}

    def move(parameters: Parameters) -> Any:
        is_refresh = truth(parameters, "new_organization_id", default=False)
        bus.move(new_organization_id=is_refresh)
        if is_refresh:
            sessions.expire_all()
            bus.wake()
            if service.open_streams:
                service.faults.arm(Fault.STREAM_AUTH_ERROR, service.open_streams)
        return {
            "organization_id": org.organization_id,
            "instance": org.instance_name,
            "latest_replay_id": bus.latest_replay_id().hex(),
        }

    def expire_tokens(_parameters: Parameters) -> Any:
        sessions.expire_all()
        return {}

    return [
        control_route("/events", "GET", events),
        control_route("/replay-ids/expire", "POST", expire),
        control_route("/replay-ids/move", "POST", move),
        control_route("/tokens/expire", "POST", expire_tokens),
    ]
