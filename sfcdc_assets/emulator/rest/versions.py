"""Which API versions the org speaks, and what each offers."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.rest_context import RestContext

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
