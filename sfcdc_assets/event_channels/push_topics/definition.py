"""The definition of a PushTopic: the fields of its record in the org, and the limits of each (Streaming API Developer
Guide, "PushTopic")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sfcdc_assets.event_channels.push_topics.errors import TopicNotSupported
from sfcdc_assets.event_channels.push_topics.soql_tokens import in_one_line

LONGEST: Mapping[str, int] = {"Name": 25, "Query": 1_300, "Description": 400}
"""Characters of the texts."""
REQUIRED = ("Name", "Query", "ApiVersion")
LEAST_VERSION = 20.0
"""A version has to be greater than this."""


class NotifyForFields(StrEnum):
    """Changes of which fields raise a notification."""

    ALL = "All"
    """Of any field of the record."""
    REFERENCED = "Referenced"
    """Of those that the query selects or compares."""
    SELECT = "Select"
    """Of those that the query selects."""
    WHERE = "Where"
    """Of those that the query compares."""


@dataclass(frozen=True)
class PushTopic:
    """A topic, as a file defines it or as the org has it. Attributes are those of the record, in snake_case."""

    name: str
    query: str
    api_version: float
    description: str | None = None
    is_active: bool = True
    notify_for_fields: NotifyForFields = NotifyForFields.REFERENCED
    notify_for_operation_create: bool = True
    notify_for_operation_update: bool = True
    notify_for_operation_delete: bool = True
    notify_for_operation_undelete: bool = True

    @property
    def channel(self) -> str:
        """What clients subscribe to."""
        return f"/topic/{self.name}"

    @property
    def operations(self) -> tuple[str, ...]:
        """Those that raise notifications, as notifications call them."""
        kinds = ("create", "update", "delete", "undelete")
        return tuple(f"{kind}d" for kind in kinds if getattr(self, f"notify_for_operation_{kind}"))

    def values(self) -> dict[str, Any]:
        """Under API names, as REST takes them."""
        return {api_name: getattr(self, name) for api_name, name in API_NAMES.items()}

    @staticmethod
    def of(values: Mapping[str, object]) -> PushTopic:
        """Make a topic from values under API names; a query is kept in one line. Raises `TopicNotSupported` for the
        first that Salesforce would not take."""
        unknown = sorted(values.keys() - API_NAMES.keys())
        if unknown:
            raise TopicNotSupported(
                unknown[0],
                "INVALID_FIELD",
                f"No such column '{unknown[0]}' on sobject of type PushTopic",
                f"The fields are {', '.join(API_NAMES)}",
            )
        given = {name: value for name, value in values.items() if value is not None and value != ""}
        for name in REQUIRED:
            if name not in given:
                raise TopicNotSupported(
                    name, "REQUIRED_FIELD_MISSING", f"Required fields are missing: [{name}]", f"Give {name} a value"
                )
        return PushTopic(**{API_NAMES[name]: _checked(name, value) for name, value in given.items()})


API_NAMES: Mapping[str, str] = {
    "".join(part.capitalize() for part in field.name.split("_")): field.name for field in fields(PushTopic)
}
"""API name -> attribute."""


def _checked(name: str, value: object) -> Any:
    if name == "ApiVersion":
        return _version(value)
    if name == "NotifyForFields":
        return _notify_for_fields(value)
    if name in LONGEST:
        return _text(name, value)
    if not isinstance(value, bool):
        raise _of_wrong_type(name, value, "true or false")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _of_wrong_type(name, value, "a text")
    text = in_one_line(value) if name == "Query" else value
    if len(text) > LONGEST[name]:
        raise TopicNotSupported(
            name,
            "STRING_TOO_LONG",
            f"{name}: data value too large: {text} (max length={LONGEST[name]})",
            f"Shorten it to {LONGEST[name]:,} characters; it has {len(text):,}",
        )
    return text


def _version(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _of_wrong_type("ApiVersion", value, "a number such as 64.0")
    if value <= LEAST_VERSION:
        raise TopicNotSupported(
            "ApiVersion",
            "FIELD_INTEGRITY_EXCEPTION",
            f"ApiVersion must be an API version greater than {LEAST_VERSION}",
            f"It is {value}; use the newest, such as 64.0",
        )
    return float(value)


def _notify_for_fields(value: object) -> NotifyForFields:
    if value not in list(NotifyForFields):
        raise TopicNotSupported(
            "NotifyForFields",
            "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST",
            f"bad value for restricted picklist field: {value}",
            f"Choose one of {', '.join(NotifyForFields)}",
        )
    return NotifyForFields(str(value))


def _of_wrong_type(name: str, value: object, wanted: str) -> TopicNotSupported:
    return TopicNotSupported(
        name, "INVALID_TYPE", f"{name} is a {type(value).__name__}, not {wanted}", f"Make it {wanted}"
    )
