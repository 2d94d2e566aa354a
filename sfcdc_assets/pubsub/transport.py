"""The Pub/Sub API as a transport of streams."""

from __future__ import annotations

from sfcdc_assets.pubsub.channel import PubSubConnection
from sfcdc_assets.pubsub.errors import Refusal, TopicNotPermitted
from sfcdc_assets.pubsub.subscription import PubSubSubscription
from sfcdc_assets.streams.replay import ReplayStart
from sfcdc_assets.streams.resume import ResumePoint, StreamProgress


class PubSubTransport:
    """One connection, its subscriptions and schemas."""

    name = "pubsub"

    def __init__(self, connection: PubSubConnection) -> None:
        self._connection = connection

    def subscribe(self, channel: str, begun: ReplayStart, resume: ResumePoint) -> PubSubSubscription:
        """See `Transport.subscribe`."""
        return PubSubSubscription(self._connection, channel, StreamProgress(begun, resume))

    def schema(self, schema_id: str) -> str:
        """The Avro schema as JSON. Raises what `PubSubConnection.get_schema` raises."""
        return self._connection.get_schema(schema_id)

    def newest_schema_id(self, entity: str) -> str:
        """As the entity's own topic names it. Raises what `PubSubConnection.get_topic` raises."""
        return self._connection.get_topic(event_topic(entity)).schema_id

    def check_channel(self, channel: str, seconds: float) -> None:
        """See `Transport.check_channel`."""
        if not self._connection.probe(channel, seconds).can_subscribe:
            raise TopicNotPermitted(Refusal("GetTopic", channel, "OK", "", "can_subscribe is false", "", ""))

    def close(self) -> None:
        """See `Transport.close`."""
        self._connection.close()


def event_topic(entity: str) -> str:
    """The single-entity topic: `Account` -> `/data/AccountChangeEvent`, `Foo__c` -> `/data/Foo__ChangeEvent`."""
    return f"/data/{entity.removesuffix('c') if entity.endswith('__c') else entity}ChangeEvent"
