"""Ask the org what an object is, and which objects there are (docs/salesforce-streams.md, "Describe")."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.salesforce.api_name import is_api_name
from sfcdc_assets.salesforce.errors import EntityNotReadable, RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.object_shape import ObjectShape
from sfcdc_assets.salesforce.session import OrgSession


@dataclass(frozen=True)
class Described:
    """What one describe said: `object`, from which the columns of tables follow, and `shape`, all of it."""

    object: ObjectDescription
    shape: ObjectShape

    @property
    def json(self) -> str:
        """The form of `object` that is stored with the schemas."""
        return json.dumps(self.object.to_json())


def describe(session: OrgSession, entity: str) -> ObjectDescription:
    """Return the entity as `describe_whole` does, without its shape."""
    return describe_whole(session, entity).object


def describe_whole(session: OrgSession, entity: str) -> Described:
    """Return the entity as the user of the session sees it; asked again each time, because fields are added while we
    run.

    Raises `EntityNotReadable` when the org has no such entity for the user, or it cannot be queried.
    """
    if not is_api_name(entity):
        raise EntityNotReadable(entity, 0, "INVALID_NAME", "an API name has letters, digits and underscores only")
    path = f"sobjects/{entity}/describe"
    try:
        answer = session.request("GET", path, what=f"the description of {entity}")
    except RequestRefused as refusal:
        raise EntityNotReadable(entity, refusal.status, refusal.error_code, refusal.message) from refusal
    try:
        description, shape = ObjectDescription.from_json(answer), ObjectShape.from_describe(answer)
    except (KeyError, TypeError, AttributeError):
        raise UnexpectedAnswer(session.url_of(path), "it is not the description of an object") from None
    if not description.queryable:
        raise EntityNotReadable(entity, 200, "NOT_QUERYABLE", "the description says queryable: false")
    return Described(description, shape)


def change_event_schema(session: OrgSession, event: str) -> dict[str, Any] | None:
    """Return the Avro schema that a change event has now (`AccountChangeEvent`), None where there is no such event or
    the user may not see it. Raises `UnexpectedAnswer` and what the session raises."""
    path = f"sobjects/{event}/eventSchema"
    try:
        answer = session.request("GET", path, params={"payloadFormat": "COMPACT"}, what=f"the schema of {event}")
    except RequestRefused as refusal:
        if refusal.status in (400, 403, 404):
            return None
        raise
    if not isinstance(answer, dict):
        raise UnexpectedAnswer(session.url_of(path), "it is not a schema")
    return answer


@dataclass(frozen=True)
class ObjectSummary:
    """One object as the list of all has it. `companion_of`: the object whose history, shares or feed it holds."""

    name: str
    queryable: bool
    companion_of: str | None


def objects(session: OrgSession) -> tuple[ObjectSummary, ...]:
    """Return all objects that the user may see. Raises `RequestRefused` and `UnexpectedAnswer`."""
    path = "sobjects/"
    answer = session.request("GET", path, what="the list of objects")
    try:
        return tuple(
            ObjectSummary(
                each["name"],
                bool(each.get("queryable", True)) and not each.get("deprecatedAndHidden", False),
                each.get("associateParentEntity"),
            )
            for each in answer["sobjects"]
            if is_api_name(each["name"])
        )
    except (KeyError, TypeError, AttributeError):
        raise UnexpectedAnswer(session.url_of(path), "it is not a list of objects") from None


def object_names(session: OrgSession) -> frozenset[str]:
    """Return the API names of all objects that the user may see. Raises what `objects` raises."""
    return frozenset(each.name for each in objects(session))
