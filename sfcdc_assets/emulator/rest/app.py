"""The REST side of an org as one ASGI application; `emulator/serving/server.py` serves it over TLS on loopback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from sfcdc_assets.emulator.cometd.routes import cometd_routes
from sfcdc_assets.emulator.cometd.service import CometdService
from sfcdc_assets.emulator.control.control_route import PREFIX
from sfcdc_assets.emulator.errors import ApiError, OrgUnavailableError
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher
from sfcdc_assets.emulator.faults.rest_faults import RestFaultMiddleware, RestFaults
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.async_bulk import async_bulk_routes
from sfcdc_assets.emulator.rest.bulk_ingest import add_bulk_ingest
from sfcdc_assets.emulator.rest.bulk_query import add_bulk_query
from sfcdc_assets.emulator.rest.composite import add_composite
from sfcdc_assets.emulator.rest.composite_sobjects import add_composite_sobjects
from sfcdc_assets.emulator.rest.composite_tree import add_composite_tree
from sfcdc_assets.emulator.rest.computed_objects import ComputedObjects
from sfcdc_assets.emulator.rest.control import control_routes
from sfcdc_assets.emulator.rest.describe import add_describe
from sfcdc_assets.emulator.rest.event_schemas import EventSchemas, add_event_schemas
from sfcdc_assets.emulator.rest.http_form import HeaderNamesMiddleware, LeadingSlashesMiddleware, RequestSizeMiddleware
from sfcdc_assets.emulator.rest.identity import identity_routes
from sfcdc_assets.emulator.rest.layouts import add_layouts
from sfcdc_assets.emulator.rest.limits import Limits, add_limits
from sfcdc_assets.emulator.rest.oauth import oauth_routes
from sfcdc_assets.emulator.rest.query import add_query
from sfcdc_assets.emulator.rest.replication import add_replication
from sfcdc_assets.emulator.rest.rest_context import Interceptor, RestContext, error_response
from sfcdc_assets.emulator.rest.search import add_search
from sfcdc_assets.emulator.rest.setup_objects import EventUsage, no_event_usage
from sfcdc_assets.emulator.rest.soap import soap_routes
from sfcdc_assets.emulator.rest.sobjects import add_sobjects
from sfcdc_assets.emulator.rest.streaming_objects import STREAMING_OBJECTS, add_streaming_objects, streaming_rows
from sfcdc_assets.emulator.rest.tooling import add_tooling
from sfcdc_assets.emulator.serving.certificate import LOOPBACK_NAMES
from sfcdc_assets.emulator.serving.sessions import Sessions
from sfcdc_assets.webserver.same_origin import SameOriginMiddleware


def build_app(  # noqa: PLR0913 - the parts of a server, of which a test has some
    org: EmulatedOrg,
    *,
    sessions: Sessions | None = None,
    intercept: Interceptor | None = None,
    faults: RestFaults | None = None,
    measured_limits: Callable[[], Limits] | None = None,
    control: Sequence[BaseRoute] = (),
    schemas: EventSchemas | None = None,
    publisher: EventPublisher | None = None,
    event_usage: EventUsage = no_event_usage,
    cometd: CometdService | None = None,
    hosts: Sequence[str] = LOOPBACK_NAMES,
) -> Starlette:
    """Return the application for one org.

    `sessions`: share with the Pub/Sub side, so that one token opens both. `intercept` sees each REST and token
    request first and may answer in the org's place; `faults` are committed before that. `measured_limits` brings counts
    of other parts into `limits`. `control`: more routes below `/emulator`, and the org's pages, for `hosts` alone.
    `schemas`: what `eventSchema` answers with. `publisher`: of platform events. `event_usage`: what
    PlatformEventUsageMetric has. `cometd`: the Streaming API, with its objects.
    """
    context = RestContext(org, sessions or Sessions(org), intercept, event_usage)
    context.publisher = publisher
    oauth = oauth_routes(context)
    versions = version_routes(context)
    add_layouts(context)
    if schemas is not None:
        add_event_schemas(context, schemas)
    add_describe(context)
    add_replication(context)  # before the single records, whose paths would match `updated` and `deleted`
    if cometd is not None:
        add_streaming_objects(context, cometd)
        context.computed |= ComputedObjects(STREAMING_OBJECTS, partial(streaming_rows, context, cometd))
    add_sobjects(context)
    add_query(context)
    add_search(context)
    add_composite_sobjects(context)
    add_composite_tree(context)
    add_composite(context)
    add_bulk_query(context)
    add_bulk_ingest(context)
    add_limits(context, measured_limits)
    add_tooling(context)
    app = Starlette(
        routes=[
            *oauth,
            *identity_routes(context),
            *versions,
            *context.routes,
            *soap_routes(context),
            *async_bulk_routes(context),
            *(cometd_routes(cometd) if cometd else ()),
            *control,
            *control_routes(context),
        ],
        middleware=[
            Middleware(HeaderNamesMiddleware, org=org),
            Middleware(RequestSizeMiddleware, org=org),
            Middleware(LeadingSlashesMiddleware),
            Middleware(RestFaultMiddleware, faults=faults or RestFaults()),
            Middleware(SameOriginMiddleware, hosts=hosts, guards=_needs_no_token),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=1),
        ],
        exception_handlers={HTTPException: _not_served, OrgUnavailableError: _unavailable, 500: _unknown_exception},
    )
    # Salesforce redirects nobody because of a slash, and a client that is redirected sends its body no second time.
    app.router.redirect_slashes = False
    return app


def _needs_no_token(scope: Scope) -> bool:
    """Return whether a request is for the pages or the control resource, which anybody on this machine may use."""
    return bool(scope["path"] == "/" or scope["path"].startswith(PREFIX))


def _not_served(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == 405:
        message = f"HTTP Method '{request.method}' not allowed"
        return error_response([ApiError("METHOD_NOT_ALLOWED", message, status=405)])
    return error_response([ApiError("NOT_FOUND", "The requested resource does not exist", status=404)])


def _unavailable(_request: Request, error: Exception) -> Response:
    return error_response([ApiError("SERVER_UNAVAILABLE", f"The server is unavailable: {error}", status=503)])


def _unknown_exception(_request: Request, _error: Exception) -> Response:
    """Answer for a fault in this program as for one in Salesforce; the server's log has the traceback."""
    return error_response([ApiError("UNKNOWN_EXCEPTION", "An unexpected error occurred.", status=500)])


_RESOURCES = ("composite", "jobs", "limits", "query", "queryAll", "recent", "search", "sobjects", "tooling")


def version_routes(context: RestContext) -> list[Route]:
    """`GET /services/data`, which needs no token, and the list of resources of a version, which does."""

    def versions(_request: Request) -> Response:
        return JSONResponse(
            [
                {"label": f"API {number}", "url": f"/services/data/v{number}.0", "version": f"{number}.0"}
                for number in context.org.settings.api_versions
            ]
        )

    def resources(request: ApiRequest) -> Response:
        identity = f"{request.base_url}/id/{context.org.organization_id}/{request.user_id}"
        return JSONResponse({name: f"{request.data_path}/{name}" for name in _RESOURCES} | {"identity": identity})

    context.add("", {"GET": resources})
    context.add("/", {"GET": resources})
    return [Route("/services/data", versions), Route("/services/data/", versions)]
