"""All pages: at the root for browsers, and below `/emulator/pages`.

Salesforce answers JSON to programs at its root and at paths it does not have. So here, unless a request says that it
takes HTML, as browsers do, the pages outside of `/emulator` do not exist.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from sfcdc_assets.emulator.org.ids import is_id, to_18
from sfcdc_assets.emulator.pages.events import event_routes
from sfcdc_assets.emulator.pages.faults import fault_routes
from sfcdc_assets.emulator.pages.home import home
from sfcdc_assets.emulator.pages.records import record_routes
from sfcdc_assets.emulator.pages.scenarios import scenario_routes
from sfcdc_assets.emulator.pages.site import FOLDER, PAGES, Site
from sfcdc_assets.emulator.serving.running_org import RunningOrg

_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def page_routes(running: RunningOrg) -> list[BaseRoute]:
    """Return the pages of a served org."""
    site = Site(running)

    def root(request: Request) -> Response:
        return site.answer(request, b"", lambda page_request: home(site, page_request))

    def record(request: Request) -> Response:
        record_id = request.path_params["id"]
        if not is_id(record_id):
            raise HTTPException(404)
        return RedirectResponse(f"{PAGES}/records/{to_18(record_id)}", status_code=303)

    return [
        _for_browsers("/", root),
        # As Salesforce's own addresses of records, which clients write into e-mails and dashboards.
        _for_browsers("/{id}", record),
        _for_browsers("/lightning/r/{object}/{id}/view", record),
        Mount(f"{PAGES}/static", StaticFiles(directory=FOLDER / "static")),
        *record_routes(site),
        *event_routes(site),
        *fault_routes(site),
        *scenario_routes(site),
    ]


def _for_browsers(path: str, answer: Callable[[Request], Response]) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method not in ("GET", "HEAD") or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return await run_in_threadpool(answer, request)

    return Route(path, endpoint, methods=_ALL_METHODS)
