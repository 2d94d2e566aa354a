"""Which entities a channel carries, and with which filters, from the org's own setup: PlatformEventChannelMember.

See
https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_platformeventchannelmember.htm
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sfcdc_assets.salesforce.api_name import is_api_name
from sfcdc_assets.salesforce.errors import RequestRefused, UnexpectedAnswer
from sfcdc_assets.salesforce.managed_subscription import managed_topic
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.salesforce.tooling_query import PATH, tooling_rows
from sfcdc_assets.settings.channel_kinds import CUSTOM_CHANNEL_SUFFIX, managed_name

if TYPE_CHECKING:  # who reads what was noted of members does not wait for a session's libraries
    from sfcdc_assets.salesforce.session import OrgSession

_log = logging.getLogger(__name__)

_CHANGES = "/data/"
STANDARD_CHANNEL = f"{_CHANGES}ChangeEvents"
_STANDARD_SUFFIX = "ChangeEvent"
_CUSTOM_SUFFIX = "__ChangeEvent"


_STAMPS = ("Id", "CreatedDate", "LastModifiedDate")


@dataclass(frozen=True)
class Member:
    """How an entity is on a channel. An object that is taken off and put back has another `id`; whoever sets or removes
    a filter or enriched fields moves `modified_at`. Times are UTC, in whole seconds, None where the org wrote none. A
    record outside `filter_expression` raises no event; None: all records do."""

    id: str
    created_at: datetime | None
    modified_at: datetime | None
    filter_expression: str | None = None


@dataclass(frozen=True)
class ChannelMembers:
    """API names of a channel's entities, sorted, the filter expressions of those that have one, and how each is on the
    channel, where the org says it: `members` is empty for a channel of one entity, about which it is not asked."""

    entities: tuple[str, ...]
    filters: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Member] = field(default_factory=dict)


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
    """Return the change event of an entity, the other way round."""
    return entity.removesuffix("__c") + _CUSTOM_SUFFIX if entity.endswith("__c") else entity + _STANDARD_SUFFIX


def channel_members(session: OrgSession, channel: str) -> ChannelMembers | None:
    """Return the channel's members; None when the org does not show them to this user.

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
    if channel != STANDARD_CHANNEL and not name.endswith(CUSTOM_CHANNEL_SUFFIX):
        return ChannelMembers((entity_of_change_event(name),))
    try:
        selected = _selected_entities(session, name)
        if not selected and name.endswith(CUSTOM_CHANNEL_SUFFIX):
            selected = _selected_by_channel_id(session, name)
    except RequestRefused as refusal:
        if refusal.status in (400, 403, 404):
            return None
        raise
    if any(is_salesforce_id(name) and not name.endswith(_STANDARD_SUFFIX) for name in selected):
        # An id of an entity definition instead of its name: the stream will name it. The suffix is looked at first,
        # because names such as LeadChangeEvent have the 15 characters of an id.
        return None
    rows = {entity_of_change_event(name): row for name, row in selected.items()}
    filters = {entity: str(row["FilterExpression"]) for entity, row in rows.items() if row.get("FilterExpression")}
    members = {entity: _member(row) for entity, row in rows.items() if row.get("Id")}
    return ChannelMembers(tuple(sorted(rows)), filters, members)


def _member(row: Mapping[str, Any]) -> Member:
    return Member(
        str(row["Id"]),
        _time(row.get("CreatedDate")),
        _time(row.get("LastModifiedDate")),
        str(row["FilterExpression"]) if row.get("FilterExpression") else None,
    )


def _time(text: object) -> datetime | None:
    """Return a time as REST writes it; None for what is none, which tells nothing and stops nobody."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _selected_entities(session: OrgSession, event_channel: str) -> dict[str, Mapping[str, Any]]:
    """Change event -> its member. An org whose Tooling API does not know filters yet has none."""
    members = f"FROM PlatformEventChannelMember WHERE EventChannel = '{event_channel}'"
    known = ", ".join((*_STAMPS, "SelectedEntity"))
    try:
        rows = tooling_rows(session, f"SELECT {known}, FilterExpression {members}")
    except RequestRefused as refusal:
        if refusal.error_code != "INVALID_FIELD":
            raise
        rows = tooling_rows(session, f"SELECT {known} {members}")
    selected: dict[str, Mapping[str, Any]] = {str(row.get("SelectedEntity")): row for row in rows}
    for name in [name for name in selected if not (_is_change_event(name) or is_salesforce_id(name))]:
        # What it stands for can't be asked for; the channel's other members can.
        _log.warning("%s has a member that is no change event: %s. It is left out.", event_channel, ascii(name))
        del selected[name]
    if rows and not selected:  # which does not say that all objects are off the channel
        raise UnexpectedAnswer(session.url_of(PATH), "no member that it lists is a change event")
    return selected


def _is_change_event(name: str) -> bool:
    try:
        return is_api_name(entity_of_change_event(name))
    except ValueError:
        return False


def _selected_by_channel_id(session: OrgSession, name: str) -> dict[str, Mapping[str, Any]]:
    """Members refer to a custom channel by its name or by its id (0YL...); the docs show both."""
    developer_name = name.removesuffix(CUSTOM_CHANNEL_SUFFIX)
    channels = tooling_rows(session, f"SELECT Id FROM PlatformEventChannel WHERE DeveloperName = '{developer_name}'")
    return {event: row for each in channels for event, row in _selected_entities(session, str(each["Id"])).items()}
