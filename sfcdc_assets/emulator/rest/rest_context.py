"""What all REST resources share: the org, its sessions and counters, and the way from an HTTP request to an answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.platform_event_definition import PlatformEventDefinition
from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.events.platform_events.event_publishing import EventPublisher, EventToPublish
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.api_usage import ApiUsage
from sfcdc_assets.emulator.rest.setup_objects import EventUsage, no_event_usage, setup_objects
from sfcdc_assets.emulator.serving.sessions import Sessions

Handler = Callable[[ApiRequest], Response]
Interceptor = Callable[[Request], Response | None]
"""Sees each request before the org does; an answer of its own replaces the org's. The place for faults."""
_TOKEN = re.compile(r"(?:Bearer|OAuth)\s+(\S+)", re.IGNORECASE)


class RestContext:
    """One REST side of one org. Handlers run in worker threads; the org's own lock keeps them apart. `event_usage`:
    how many events were published and delivered, as PlatformEventUsageMetric has it."""

    def __init__(
        self,
        org: EmulatedOrg,
        sessions: Sessions,
        intercept: Interceptor | None = None,
        event_usage: EventUsage = no_event_usage,
    ) -> None:
        self.org = org
        self.sessions = sessions
        self.usage = ApiUsage(org)
        self.intercept = intercept
        self.publisher: EventPublisher | None = None
        """Publishes platform events; without it the org has none, to REST."""
        self.setup = setup_objects(org, event_usage)
        self.computed = self.setup
        """Objects that SOQL knows beside the org's own: those of Setup, to which the Streaming API adds its own."""
        self.routes: list[Route] = []
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._ambient = threading.local()

    def add(self, path: str, handlers: Mapping[str, Handler]) -> None:
        """Serve `/services/data/v{version}` + `path`, with one handler a method."""
        full = "/services/data/v{version}" + path
        for suffix in ("", "/") if path else ("",):
            self.routes.append(Route(full + suffix, self._endpoint, methods=list(handlers)))
            for method, handler in handlers.items():
                self._handlers[full + suffix, method] = handler

    def dispatch(self, request: ApiRequest, path: str) -> Response:
        """Answer a subrequest of a composite request with the handler of its path."""
        for route in self.routes:
            match, scope = route.matches({"type": "http", "path": path, "method": request.method})
            if match is Match.FULL:
                return self._answer(replace(request, path=scope["path_params"]), route.path)
        return error_response([ApiError("NOT_FOUND", "The requested resource does not exist", status=404)])

    @contextmanager
    def transaction(self, request: ApiRequest) -> Iterator[UnitOfWork]:
        """Yield the unit of work for a request's changes: that of the composite request around it, or one of its own.

        Platform events that are published inside are stored at its end: with its changes if they are published after
        the commit, and in any case if they are published immediately.
        """
        ambient: UnitOfWork | None = getattr(self._ambient, "unit_of_work", None)
        if ambient is not None:
            yield ambient
            return
        waiting: list[EventToPublish] = []
        self._ambient.events = waiting
        try:
            with self.org.transaction(
                user_id=request.user_id, change_origin=request.change_origin, as_client=True
            ) as unit_of_work:
                yield unit_of_work
                self._store([each for each in waiting if not each.definition.is_immediate])
        finally:
            self._ambient.events = None
            self._store([each for each in waiting if each.definition.is_immediate])

    def _store(self, events: list[EventToPublish]) -> None:
        if self.publisher is not None and events:
            self.publisher.store(events)

    def platform_event(self, name: str) -> PlatformEventDefinition | None:
        """Return the platform event a path or a record names, if the client may see it."""
        return self.org.platform_events.find(name) if self.publisher is not None else None

    def publish(
        self, request: ApiRequest, definition: PlatformEventDefinition, values: Mapping[str, object]
    ) -> dict[str, Any]:
        """Accept an event inside a `transaction`; what a save answers, whose error says that it is on its way
        (https://developer.salesforce.com/docs/atlas.en-us.platform_events.meta/platform_events/
        platform_events_publish_api.htm). Raises RecordError."""
        assert self.publisher is not None
        waiting: list[EventToPublish] = self._ambient.events
        event = self.publisher.draft(definition, values, request.user_id, waiting=len(waiting))
        waiting.append(event)
        # The id is of no use, and not unique either.
        record_id = new_id(definition.shape.key_prefix, instance_characters(self.org.seed), 1)
        enqueued = {"statusCode": "OPERATION_ENQUEUED", "message": event.event_id, "fields": []}
        return {"id": record_id, "success": True, "errors": [enqueued]}

    @contextmanager
    def whole_transaction(self, request: ApiRequest) -> Iterator[None]:
        """All changes of subrequests dispatched inside are one transaction."""
        with self.transaction(request) as unit_of_work:
            self._ambient.unit_of_work = unit_of_work
            try:
                yield
            finally:
                self._ambient.unit_of_work = None

    def definition(self, name: str, *, to_read: bool = False) -> ObjectDefinition:
        """Return the object a path names; `to_read`: it may be a computed one, too. Raises ApiError: NOT_FOUND if
        hidden or unknown, INSUFFICIENT_ACCESS if not readable."""
        known = {**self.org.definitions, **self.computed.definitions} if to_read else self.org.definitions
        for definition in known.values():
            if definition.name.lower() == name.lower() and definition.name not in self.org.hidden_objects:
                if to_read:
                    self.check_readable(definition)
                return self.org.field_security.visible(definition)
        raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)

    def check_readable(self, definition: ObjectDefinition) -> None:
        """Raise ApiError INSUFFICIENT_ACCESS if the client has no right to read the object."""
        if definition.name in self.org.unreadable_objects:
            raise ApiError("INSUFFICIENT_ACCESS", f"no read access to object {definition.name}", status=403)

    def count_requests(self) -> None:
        """Count one request of the day's. A refused one is not counted. Raises ApiError when there are none left."""
        if self.usage.used() >= self.org.settings.daily_api_requests:
            raise ApiError("REQUEST_LIMIT_EXCEEDED", "TotalRequests Limit exceeded.", status=403)
        self.usage.add()

    def count_bulk_batch(self) -> None:
        """Count a batch of the day's. Raises ApiError when there are none left."""
        if self.usage.used("bulk_batch") >= self.org.settings.daily_bulk_batches:
            message = "ApiBatchItems Limit exceeded."
            raise ApiError("REQUEST_LIMIT_EXCEEDED", message, status=403)
        self.usage.add("bulk_batch")

    async def _endpoint(self, request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(self._serve, request, body)

    def _serve(self, request: Request, body: bytes) -> Response:
        response = self.intercept(request) if self.intercept else None
        if response is not None:
            return response
        try:
            user_id = self.authenticate(request)
            self.count_requests()
        except ApiError as error:
            return self._with_limit_info(error_response([error]))
        self.org.housekeeping.look()
        api_request = ApiRequest(
            method=request.method,
            path=request.path_params,
            query=dict(request.query_params),
            headers=dict(request.headers),
            body=body,
            user_id=user_id,
            base_url=base_url(request),
        )
        response = self._answer(api_request, request.scope["route"].path)
        return self._with_limit_info(response)

    def _with_limit_info(self, response: Response) -> Response:
        most = self.org.settings.daily_api_requests
        response.headers["Sforce-Limit-Info"] = f"api-usage={self.usage.used()}/{most}"
        return response

    def authenticate(self, request: Request) -> str:
        """Return the user a request's token belongs to. Raises ApiError INVALID_SESSION_ID."""
        token = _TOKEN.fullmatch(request.headers.get("authorization", ""))
        user_id = self.sessions.user_of(token.group(1)) if token else None
        if user_id is None:
            raise ApiError("INVALID_SESSION_ID", "Session expired or invalid", status=401)
        return user_id

    def _answer(self, request: ApiRequest, route: str) -> Response:
        try:
            if request.version not in {f"{version}.0" for version in self.org.settings.api_versions}:
                raise ApiError("NOT_FOUND", "The requested resource does not exist", status=404)
            method = "GET" if request.method == "HEAD" else request.method
            return self._handlers[route, method](request)
        except ApiError as error:
            return error_response([error])


def base_url(request: Request) -> str:
    """Scheme, host and port by which the client reached the org."""
    return f"{request.url.scheme}://{request.headers.get('host', request.url.netloc)}"


def error_response(errors: Sequence[ApiError]) -> JSONResponse:
    """Errors in the list form of the REST API, with the status of the first."""
    body = [
        {"message": error.message, "errorCode": error.error_code}
        | ({"fields": list(error.fields)} if error.fields else {})
        for error in errors
    ]
    return JSONResponse(body, status_code=errors[0].status)
