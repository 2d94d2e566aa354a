"""Control routes as plain functions from parameters to JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.rest.json_body import parse_json
from sfcdc_assets.runtime.errors import SfcdcError

PREFIX = "/emulator"
"""Below it is what the org itself does not have: the control resource and the pages. It asks for no token."""
Parameters = Mapping[str, Any]
"""Of the query, of the JSON body and of the path; the path counts most."""
Answer = Callable[[Parameters], Any]
"""Gives what is sent as JSON; raises ControlError, or ApiError where the org itself refuses."""


class ControlError(SfcdcError):
    """A control request that cannot be done; the message says what is wrong with it."""


def control_route(path: str, method: str, answer: Answer) -> Route:
    """Serve `answer` at `PREFIX` + `path`: 200 with its JSON, or 400 with `error`."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_answered, request, body, answer)

    return Route(PREFIX + path, endpoint, methods=[method])


def whole_number(parameters: Parameters, name: str, default: int, *, least: int = 0) -> int:
    """Return a parameter that is a whole number. Raises ControlError."""
    value = parameters.get(name, default)
    try:
        number = int(value) if not isinstance(value, bool | float) else -1
    except (TypeError, ValueError):
        number = least - 1
    if number < least:
        raise ControlError(f"{name} must be a whole number of at least {least}")
    return number


def truth(parameters: Parameters, name: str, *, default: bool) -> bool:
    """Return a parameter that is true or false. Raises ControlError."""
    value = parameters.get(name, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ControlError(f"{name} must be true or false")


def text(parameters: Parameters, name: str) -> str:
    """Return a parameter that is a text and must be there. Raises ControlError."""
    value = parameters.get(name)
    if not isinstance(value, str) or not value:
        raise ControlError(f"{name} must be given, as text")
    return value


def _answered(request: Request, body: bytes, answer: Answer) -> Response:
    try:
        document = parse_json(body) if body.strip() else {}
        if not isinstance(document, dict):
            raise ControlError("the body must be a JSON object")
        return JSONResponse(answer({**request.query_params, **document, **request.path_params}))
    except ValueError as error:
        return JSONResponse({"error": f"the body is not JSON: {error}"}, status_code=400)
    except (ControlError, ApiError) as error:
        return JSONResponse({"error": str(error)}, status_code=400)
