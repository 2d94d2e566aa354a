"""The record of a PushTopic, and what of it is refused (Streaming API Developer Guide, "PushTopic")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.errors import QueryError, RecordError
from sfcdc_assets.emulator.org.transaction import CREATE, DELETE, UNDELETE, UPDATE
from sfcdc_assets.emulator.streaming.notification_rules import NotifyForFields
from sfcdc_assets.emulator.streaming.topic_query import LONGEST, TopicQuery, topic_query

LONGEST_NAME, LONGEST_DESCRIPTION = 25, 400
OPERATIONS = {
    "NotifyForOperationCreate": CREATE,
    "NotifyForOperationUpdate": UPDATE,
    "NotifyForOperationDelete": DELETE,
    "NotifyForOperationUndelete": UNDELETE,
}
DEFAULTS: Mapping[str, Any] = {
    "Name": None,
    "Query": None,
    "ApiVersion": None,
    "Description": None,
    "IsActive": True,
    "NotifyForFields": NotifyForFields.REFERENCED.value,
    **dict.fromkeys(OPERATIONS, True),
}
REQUIRED = ("Name", "Query", "ApiVersion")


@dataclass(frozen=True)
class PushTopic:
    """One record; `values` are those that a client writes, under their API names."""

    id: str
    created: int
    modified: int
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The channel is `/topic/` and this."""
        return str(self.values["Name"])

    @property
    def operations(self) -> frozenset[str]:
        """What may raise a notification."""
        return frozenset(operation for name, operation in OPERATIONS.items() if self.values[name])


def checked(
    values: Mapping[str, Any],
    before: PushTopic | None,
    others: Sequence[PushTopic],
    definitions: Mapping[str, ObjectDefinition],
) -> dict[str, Any]:
    """Return the values of a topic after a client wrote some of them. `before`: the topic that is changed, `others`:
    all that there are. Raises RecordError and QueryError with the vendor's text."""
    values = {**(before.values if before else DEFAULTS), **_known(values)}
    missing = [name for name in REQUIRED if values[name] in (None, "")]
    if missing:
        raise RecordError("REQUIRED_FIELD_MISSING", f"Required fields are missing: [{', '.join(missing)}]", (*missing,))
    for name, most in (("Name", LONGEST_NAME), ("Query", LONGEST), ("Description", LONGEST_DESCRIPTION)):
        text = values[name]
        if text is not None and not isinstance(text, str):
            raise RecordError("INVALID_TYPE", f"{name} must be a text", (name,))
        if text is not None and len(text) > most:
            message = f"{name}: data value too large: {text} (max length={most})"
            raise RecordError("STRING_TOO_LONG", message, (name,))
    version = values["ApiVersion"]
    if isinstance(version, bool) or not isinstance(version, int | float) or version <= 20:
        raise RecordError(
            "FIELD_INTEGRITY_EXCEPTION", "ApiVersion must be an API version greater than 20.0", ("ApiVersion",)
        )
    if values["NotifyForFields"] not in list(NotifyForFields):
        message = f"bad value for restricted picklist field: {values['NotifyForFields']}"
        raise RecordError("INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST", message, ("NotifyForFields",))
    for each in others:
        if each.name.lower() == str(values["Name"]).lower() and (before is None or each.id != before.id):
            message = f"duplicate value found: Name duplicates value on record with id: {each.id}"
            raise RecordError("DUPLICATE_VALUE", message, ("Name",))
    _check_fields(topic_query(values["Query"], definitions, frozenset()), values["NotifyForFields"])
    return values


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    names = {name.lower(): name for name in DEFAULTS}
    known: dict[str, Any] = {}
    for name, value in values.items():
        if name.lower() not in names:
            raise RecordError("INVALID_FIELD", f"No such column '{name}' on sobject of type PushTopic", (name,))
        known[names[name.lower()]] = value
    return known


def _check_fields(query: TopicQuery, notify: str) -> None:
    selected = any(name != "Id" for name in query.selected)
    compared = any(name != "Id" for name in query.where_fields)
    for kind, is_enough, where in (
        (NotifyForFields.REFERENCED, selected or compared, "SELECT or WHERE"),
        (NotifyForFields.SELECT, selected, "SELECT"),
        (NotifyForFields.WHERE, compared, "WHERE"),
    ):
        if notify == kind and not is_enough:
            message = f"NotifyForFields {kind} needs at least one field other than Id in the {where} clause"
            raise QueryError("INVALID_FIELD", message)
