"""Control routes of the Pub/Sub side: what was delivered, and faults to arm. Not part of Salesforce's surface."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.event_bus import EventBus
from sfcdc_assets.emulator.faults import Fault
from sfcdc_assets.emulator.pubsub_service import PubSubService


def pubsub_control_routes(bus: EventBus, service: PubSubService) -> list[Route]:
    """`GET /emulator/events`, `POST /emulator/faults/{fault}?times=N` and `DELETE /emulator/faults`."""

    def events(request: Request) -> Response:
        return JSONResponse(
            {
                "published": bus.last_number,
                "latest_replay_id": bus.latest_replay_id().hex(),
                "delivered": service.meter.total,
                "delivered_in_last_24_hours": service.meter.in_last_24_hours(),
                "delivered_more_than_once": len(service.meter.more_than_once()),
                "open_streams": service.open_streams,
            }
        )

    def arm(request: Request) -> Response:
        try:
            fault = Fault(request.path_params["fault"])
            times = int(request.query_params.get("times", "1"))
        except ValueError:
            known = ", ".join(Fault)
            return JSONResponse({"error": f"faults are {known}; times is a whole number"}, status_code=400)
        if times < 1:
            return JSONResponse({"error": "times must be at least 1"}, status_code=400)
        service.faults.arm(fault, times)
        return JSONResponse({"armed": service.faults.armed(fault)})

    def disarm(request: Request) -> Response:
        service.faults.disarm()
        return JSONResponse({})

    return [
        Route("/emulator/events", events),
        Route("/emulator/faults/{fault}", arm, methods=["POST"]),
        Route("/emulator/faults", disarm, methods=["DELETE"]),
    ]
