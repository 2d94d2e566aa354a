"""Managed event subscriptions in the org's setup: ManagedEventSubscription.

See
https://developer.salesforce.com/docs/atlas.en-us.api_tooling.meta/api_tooling/tooling_api_objects_managedeventsubscription.htm
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.errors import UnexpectedAnswer
from sfcdc_assets.salesforce.tooling_query import PATH, tooling_rows
from sfcdc_assets.settings.channel_kinds import ChannelKind, kind_of, managed_channel, managed_name

if TYPE_CHECKING:  # who reads what was noted of members does not wait for a session's libraries
    from sfcdc_assets.salesforce.session import OrgSession


class ManagedTopicOfOtherKind(SfcdcError):
    """A channel of the settings is read through a managed event subscription whose topic has other events."""

    def __init__(self, channel: str, topic: str, right: str | None) -> None:
        self.channel, self.topic = channel, topic
        remedy = f"Write {right} in SFCDC_CHANNELS" if right else "Only change events and platform events have these"
        super().__init__(f"{channel}: the topic of the managed event subscription is {topic}. {remedy}.")


def managed_topic(session: OrgSession, channel: str) -> str | None:
    """Return the topic of the managed event subscription that a channel is read through, such as `/data/ChangeEvents`;
    None where there is none of that name. One request; the user needs 'View Setup and Configuration'. Raises
    `ManagedTopicOfOtherKind`, `RequestRefused` and `UnexpectedAnswer`."""
    developer_name = managed_name(channel)
    # A query of the Tooling API that asks for Metadata must find one row.
    soql = f"SELECT Id, Metadata FROM ManagedEventSubscription WHERE DeveloperName = '{developer_name}' LIMIT 1"
    records = tooling_rows(session, soql)
    if not records:
        return None
    metadata = records[0].get("Metadata")
    topic = metadata.get("topicName") if isinstance(metadata, dict) else None
    if not isinstance(topic, str) or not topic:
        raise UnexpectedAnswer(session.url_of(PATH), f"{developer_name} names no topic")
    if _kind(topic) is not kind_of(channel):
        raise ManagedTopicOfOtherKind(channel, topic, managed_channel(str(developer_name), _kind(topic)))
    return topic


def _kind(topic: str) -> ChannelKind | None:
    try:
        return kind_of(topic)
    except ValueError:
        return None
