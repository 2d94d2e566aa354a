"""The Pub/Sub API as a transport of streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sfcdc_assets.settings.channel_kinds import managed_name
from sfcdc_assets.streams.delivered_event import ReplayStart
from sfcdc_assets.streams.pubsub.channel import PubSubConnection
from sfcdc_assets.streams.pubsub.errors import ManagedSubscriptionNotFound, Refusal, TopicNotPermitted
from sfcdc_assets.streams.pubsub.managed_subscription import ManagedSubscription
from sfcdc_assets.streams.pubsub.subscription import PubSubSubscription
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress
from sfcdc_assets.streams.transport import with_a_token_that_counts


class PubSubTransport:
    """One connection, its subscriptions and schemas."""

    name = "pubsub"

    def __init__(
        self, connection: PubSubConnection, managed_topic: Callable[[str], str | None] = lambda _: None
    ) -> None:
        """`managed_topic`: the topic of the managed event subscription that a channel names, None where there is
        none."""
        self._connection = connection
        self._managed_topic = managed_topic

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> PubSubSubscription:
        """See `Transport.subscribe`."""
        progress, name = StreamProgress(begun, resume), managed_name(channel)
        if name is not None:
            return ManagedSubscription(self._connection, channel, name, lambda: self._topic_of(channel, name), progress)
        return PubSubSubscription(self._connection, channel, progress)

    def schema(self, schema_id: str) -> str:
        """Return the Avro schema as JSON. Raises what `PubSubConnection.get_schema` raises."""
        return self._connection.get_schema(schema_id)

    def schemas(self, schema_ids: Sequence[str]) -> Mapping[str, str]:
        """See `Transport.schemas`."""
        return self._connection.get_schemas(schema_ids)

    def newest_schema_id(self, entity: str) -> str:
        """Return the id as the entity's own topic names it. Raises what `PubSubConnection.get_topic` raises."""
        return self._connection.get_topic(event_topic(entity)).schema_id

    def check_channel(self, channel: str, seconds: float) -> None:
        """See `Transport.check_channel`."""
        name = managed_name(channel)
        topic = channel if name is None else self._topic_of(channel, name)
        probe = partial(self._connection.probe, topic, seconds)
        if not with_a_token_that_counts(probe, self._connection.refresh_credentials).can_subscribe:
            raise TopicNotPermitted(Refusal("GetTopic", topic, "OK", "", "can_subscribe is false", "", ""))

    def _topic_of(self, channel: str, name: str) -> str:
        topic = self._managed_topic(channel)
        if topic is None:
            raise ManagedSubscriptionNotFound(Refusal("ManagedSubscribe", name, "NOT_FOUND", "", "", "", ""))
        return topic

    def close(self) -> None:
        """See `Transport.close`."""
        self._connection.close()


def event_topic(entity: str) -> str:
    """Return the single-entity topic: `Account` -> `/data/AccountChangeEvent`, `Foo__c` -> `/data/Foo__ChangeEvent`."""
    return f"/data/{entity.removesuffix('c') if entity.endswith('__c') else entity}ChangeEvent"
