"""The live feed: a page of it, and the rows that the script asks for while it is looked at."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfcdc_assets.emulator.control.control_route import ControlError
from sfcdc_assets.emulator.control.feed_control import feed_page
from sfcdc_assets.emulator.events.feed_sources import FeedEvent
from sfcdc_assets.emulator.pages.event_view import event_views
from sfcdc_assets.emulator.pages.site import PAGES, PageRequest, Site

_ON_A_PAGE = 100


def event_routes(site: Site) -> list[Route]:
    """`/events`, and `/events/rows?after=N&entity=X&record=ID&wait=SECONDS&limit=N`: rows, the newest first, with the
    number to go on from in the header `Feed-Next-After`."""

    def events(request: PageRequest) -> Response:
        entity = request.query.get("entity", "")
        names = site.running.feed.names()
        if entity not in names:
            entity = ""
        page = site.running.feed.newest(_ON_A_PAGE, entity)
        return site.page(
            request,
            "events.html",
            events=event_views(page.events),
            next_after=page.next_after,
            most_events=_ON_A_PAGE,
            entity=entity,
            names=names,
        )

    async def rows(request: Request) -> Response:
        try:
            page = await feed_page(site.running, {"only_newest": True, **request.query_params}, _ON_A_PAGE)
        except ControlError as error:
            return Response(str(error), status_code=400, media_type="text/plain")
        record = request.query_params.get("record", "")
        shown: list[FeedEvent] = [each for each in page.events if not record or each.names(record)]
        headers = {"Feed-Next-After": str(page.next_after)}
        return site.fragment("event_rows.html", headers, events=event_views(shown))

    return [site.route("/events", events), Route(f"{PAGES}/events/rows", rows)]
