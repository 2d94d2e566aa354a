"""The events decoded, and who listens to them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import (
    PREFIX,
    ControlError,
    Parameters,
    control_route,
    truth,
    whole_number,
)
from sfcdc_assets.emulator.events.event_feed import FeedPage, FeedPlace
from sfcdc_assets.emulator.events.feed_sources import FeedEvent
from sfcdc_assets.emulator.events.subscribers import subscribers
from sfcdc_assets.emulator.serving.running_org import RunningOrg

MOST_EVENTS = 1_000
MOST_SECONDS = 30
"""How long a request may wait for events."""


def feed_routes(running: RunningOrg) -> list[Route]:
    """`GET /emulator/feed?after=PLACE&limit=N&entity=X&wait=SECONDS&only_newest=true`: events oldest first, decoded,
    each once, with `next_after` to go on from; `kind` says of which sort each is, and `entity` may be an object, a
    platform event, or a channel such as `/topic/X` or `/u/X`. Without `after`, the newest ones. `wait` holds the answer
    until there is something; `only_newest` leaves out all but the last `limit`, and says in `skipped` how many.

    `GET /emulator/subscribers`: streams and sessions with their place and lag, those that ended last at the end.
    """

    async def feed(request: Request) -> Response:
        try:
            page = await feed_page(running, request.query_params)
        except ControlError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        events = [event_json(each) for each in page.events]
        return JSONResponse({"events": events, "next_after": str(page.next_after), "skipped": page.skipped})

    def listeners(_parameters: Parameters) -> Any:
        return {
            "subscribers": [
                asdict(each) for each in subscribers(running.org, running.bus, running.service, running.cometd)
            ]
        }

    return [Route(f"{PREFIX}/feed", feed), control_route("/subscribers", "GET", listeners)]


async def feed_page(running: RunningOrg, parameters: Parameters, default_limit: int = 100) -> FeedPage:
    """Return what a request for events asks for. Raises ControlError."""
    limit = min(MOST_EVENTS, whole_number(parameters, "limit", default_limit, least=1))
    seconds = min(MOST_SECONDS, whole_number(parameters, "wait", 0))
    entity = str(parameters.get("entity", ""))
    names = running.feed.names()
    if entity and entity not in names:
        raise ControlError(f"there is no object, platform event or channel {entity}; there are {', '.join(names)}")
    if "after" not in parameters:
        return await run_in_threadpool(running.feed.newest, limit, entity)
    only_newest = truth(parameters, "only_newest", default=False)
    try:
        after = FeedPlace.parse(str(parameters["after"]))
    except ValueError:
        raise ControlError("after must be 0, or a place that an answer named as next_after") from None
    return await running.feed.wait_after(after, limit, entity, seconds=seconds, only_newest=only_newest)


def event_json(event: FeedEvent) -> dict[str, Any]:
    """Return an event as JSON, its payload under its fields' names."""
    return asdict(event)
