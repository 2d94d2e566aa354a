"""Managed event subscriptions as the Tooling API makes, changes and deletes them."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from sfcdc_assets.emulator.errors import ApiError
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.rest.api_request import ApiRequest
from sfcdc_assets.emulator.rest.computed_objects import ComputedRow, audit_fields
from sfcdc_assets.emulator.rest.rest_context import RestContext
from sfcdc_assets.emulator.rest.tooling_form import (
    CREATED,
    Row,
    metadata,
    metadata_object,
    metadata_row,
    record_form,
    text,
)
from sfcdc_assets.emulator.setup.managed_subscriptions import ManagedSubscription

MANAGED = metadata_object(
    "ManagedEventSubscription", "18x", ("TopicName", "DefaultReplay", "ErrorRecoveryReplay", "State")
)


def add_managed_subscriptions(context: RestContext) -> None:
    """Create, read, update and delete."""
    resource = _ManagedResource(context)
    managed = f"/tooling/sobjects/{MANAGED.name}"
    context.add(managed, {"POST": resource.create})
    context.add(
        managed + "/{id}",
        {"GET": resource.read, "PATCH": resource.update, "DELETE": resource.delete},
    )


def managed_rows(org: EmulatedOrg) -> Sequence[ComputedRow]:
    """All of them, for queries; a query's `Metadata` is JSON."""
    return [_row(org, each) for each in org.managed_subscriptions.all()]


class _ManagedResource:
    def __init__(self, context: RestContext) -> None:
        self._org = context.org

    def create(self, request: ApiRequest) -> Response:
        """201 with the id."""
        document = request.json_object()
        given = metadata(document)
        facts = [text(given, each) for each in ("label", "topicName", "defaultReplay", "errorRecoveryReplay", "state")]
        made = self._org.managed_subscriptions.create(text(document, "FullName"), *facts)
        return JSONResponse({"id": made.id, **CREATED}, status_code=201)

    def read(self, request: ApiRequest) -> Response:
        """Return the subscription with its metadata."""
        found = self._org.managed_subscriptions.get(request.path["id"])
        return JSONResponse(record_form(MANAGED, _row(self._org, found), request))

    def update(self, request: ApiRequest) -> Response:
        """204; the topic cannot change."""
        found = self._org.managed_subscriptions.get(request.path["id"])
        given = {**_facts_of(found), **metadata(request.json_object())}
        if given["topicName"] != found.topic:
            raise ApiError("FIELD_INTEGRITY_EXCEPTION", "topicName cannot be changed", ("topicName",))
        facts = [text(given, each) for each in ("label", "defaultReplay", "errorRecoveryReplay", "state")]
        self._org.managed_subscriptions.update(found.id, *facts)
        return Response(status_code=204)

    def delete(self, request: ApiRequest) -> Response:
        """204."""
        self._org.managed_subscriptions.delete(request.path["id"])
        return Response(status_code=204)


def _row(org: EmulatedOrg, found: ManagedSubscription) -> Row:
    facts = {
        "TopicName": found.topic,
        "DefaultReplay": found.default_replay,
        "ErrorRecoveryReplay": found.error_recovery_replay,
        "State": found.state,
    }
    shared = metadata_row(found.name, found.name, found.label, _facts_of(found))
    return audit_fields(org, found.id, found.created) | shared | facts


def _facts_of(found: ManagedSubscription) -> dict[str, str]:
    return {
        "label": found.label,
        "topicName": found.topic,
        "defaultReplay": found.default_replay,
        "errorRecoveryReplay": found.error_recovery_replay,
        "state": found.state,
    }
