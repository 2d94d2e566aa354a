"""Which entities a channel carries, and with which filters, from the org's own setup: PlatformEventChannelMember.

See
https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_platformeventchannelmember.htm
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.channel_kinds import managed_name
from sfcdc_assets.salesforce.errors import RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.managed_subscription import managed_topic
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.session import OrgSession

_CHANGES = "/data/"
STANDARD_CHANNEL = f"{_CHANGES}ChangeEvents"
_STANDARD_SUFFIX = "ChangeEvent"
_CUSTOM_SUFFIX = "__ChangeEvent"
_CUSTOM_CHANNEL_SUFFIX = "__chn"


@dataclass(frozen=True)
class ChannelMembers:
    """API names of a channel's entities, sorted, and the filter expressions of those that have one: a record that is
    outside it raises no event."""

    entities: tuple[str, ...]
    filters: Mapping[str, str] = field(default_factory=dict)


def entity_of_change_event(name: str) -> str:
    """`AccountChangeEvent` -> `Account`, `Invoice_Statement__ChangeEvent` -> `Invoice_Statement__c`.

    Raises `ValueError` when the name is not a change event's.
    """
    if name.endswith(_CUSTOM_SUFFIX):
        return name.removesuffix(_CUSTOM_SUFFIX) + "__c"
    if name.endswith(_STANDARD_SUFFIX) and name != _STANDARD_SUFFIX:
        return name.removesuffix(_STANDARD_SUFFIX)
    raise ValueError(f"{name!r} is not the name of a change event")


def change_event_of(entity: str) -> str:
    """The other way round."""
    return entity.removesuffix("__c") + _CUSTOM_SUFFIX if entity.endswith("__c") else entity + _STANDARD_SUFFIX


def channel_members(session: OrgSession, channel: str) -> ChannelMembers | None:
    """The channel's members; None when the org does not show them to this user.

    A single-entity channel names its entity itself and costs no request. For the others the user needs 'View Setup
    and Configuration'; without it the entities become known as the stream names them.
    One that is read through a managed event subscription has the members of that one's topic.
    Raises `ValueError` for a text that is not a channel of change events, and `ManagedTopicOfOtherKind`.
    """
    if managed_name(channel) is not None:
        try:
            topic = managed_topic(session, channel)
        except RequestRefused as refusal:
            if refusal.status in (400, 403, 404):
                return None
            raise
        if topic is None:
            return None
        channel = topic
    name = channel.removeprefix(_CHANGES)
    if name == channel or not name:
        raise ValueError(f"{channel!r} is not a channel of change events; they start with /data/")
    if channel != STANDARD_CHANNEL and not name.endswith(_CUSTOM_CHANNEL_SUFFIX):
        return ChannelMembers((entity_of_change_event(name),))
    try:
        selected = _selected_entities(session, name)
        if not selected and name.endswith(_CUSTOM_CHANNEL_SUFFIX):
            selected = _selected_by_channel_id(session, name)
    except RequestRefused as refusal:
        if refusal.status in (400, 403, 404):
            return None
        raise
    if any(is_salesforce_id(name) and not name.endswith(_STANDARD_SUFFIX) for name in selected):
        # An id of an entity definition instead of its name: the stream will name it. The suffix is looked at first,
        # because names such as LeadChangeEvent have the 15 characters of an id.
        return None
    try:
        filters = {entity_of_change_event(name): expression for name, expression in selected.items() if expression}
        return ChannelMembers(tuple(sorted({entity_of_change_event(name) for name in selected})), filters)
    except ValueError as error:
        raise UnexpectedAnswer(session.url_of("tooling/query/"), str(error)) from error


def _selected_entities(session: OrgSession, event_channel: str) -> dict[str, str | None]:
    """Change event -> filter expression. An org whose Tooling API does not know filters yet has none."""
    members = f"FROM PlatformEventChannelMember WHERE EventChannel = '{event_channel}'"
    try:
        rows = _rows(session, f"SELECT SelectedEntity, FilterExpression {members}")
    except RequestRefused as refusal:
        if refusal.error_code != "INVALID_FIELD":
            raise
        rows = _rows(session, f"SELECT SelectedEntity {members}")
    return {str(row["SelectedEntity"]): row.get("FilterExpression") or None for row in rows}


def _selected_by_channel_id(session: OrgSession, name: str) -> dict[str, str | None]:
    """Members refer to a custom channel by its name or by its id (0YL...); the docs show both."""
    developer_name = name.removesuffix(_CUSTOM_CHANNEL_SUFFIX)
    channels = _rows(session, f"SELECT Id FROM PlatformEventChannel WHERE DeveloperName = '{developer_name}'")
    return {
        name: description
        for row in channels
        for name, description in _selected_entities(session, str(row["Id"])).items()
    }


def _rows(session: OrgSession, soql: str) -> list[dict[str, Any]]:
    """All rows of a tooling query; an org has at most 100 channels and some hundred members, so no page follows."""
    answer = session.request("GET", "tooling/query/", params={"q": soql}, what="a tooling query")
    records = answer.get("records") if isinstance(answer, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UnexpectedAnswer(session.url_of("tooling/query/"), "it is not a page of a query")
    return records
