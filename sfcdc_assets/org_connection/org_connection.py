"""The org as the pipeline uses it: one REST session and one transport of its streams, with the same token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.payload_schema import PayloadSchema, payload_schemas
from sfcdc_assets.lake.tables.schemas import EventSchema
from sfcdc_assets.polls.object_schema import carried_fields, schema_of
from sfcdc_assets.polls.polled_objects import PollSettings, polled_objects
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import ChannelMembers, change_event_of, channel_members
from sfcdc_assets.salesforce.describe import Described, change_event_schema, describe_whole, object_names, objects
from sfcdc_assets.salesforce.errors import ApiLimitReached, EntityNotReadable, RequestRefused
from sfcdc_assets.salesforce.instance import InstanceName
from sfcdc_assets.salesforce.limits import Limit, limits
from sfcdc_assets.salesforce.record_counts import record_counts
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.view_all import ViewAll
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.checkpoint import EARLIEST
from sfcdc_assets.streams.open_transport import new_transport
from sfcdc_assets.streams.transport import Transport
from sfcdc_assets.timeline.untrusted_rows import VanishLimits


@dataclass(frozen=True)
class OrgConnection:
    """An open session with an org. Nothing is asked of it before the first use."""

    session: OrgSession
    transport: Transport
    """By the protocol of the first channel: for schemas, which are the same by every one."""
    privacy: Privacy
    """What of it may be kept."""
    view_all: ViewAll
    """Whether the user is shown all of it."""
    vanish_limits: VanishLimits
    """How much of it may be gone at once."""
    instance_name: InstanceName
    """The name of the instance that the org is on, asked now and then; None when the org does not say."""
    new_transport: Callable[[str], Transport]
    """Another one, for a subscription of its own to a channel; whoever makes one closes it."""
    from_earliest: bool = True
    """Whether a channel without a checkpoint is begun with the events that the org still has."""
    payload_schemas: Mapping[str, PayloadSchema] = field(default_factory=dict)
    """Of generic channels whose payloads are JSON of a known shape."""
    poll: PollSettings = field(default_factory=PollSettings)
    """Which objects are polled, and how often."""

    def members(self, channel: str) -> ChannelMembers | None:
        """Entities of a channel, and their filters, as the org's setup lists them; None when it does not say. Those
        that are polled are what the settings take of the org's objects."""
        if is_polled(channel):
            return ChannelMembers(polled_objects(self.poll, objects(self.session)))
        return channel_members(self.session, channel)

    def describe(self, entity: str) -> Described | None:
        """Return what describe says of an object; None when the object may not be read."""
        try:
            return describe_whole(self.session, entity)
        except EntityNotReadable:
            return None

    def object_names(self) -> frozenset[str] | None:
        """Return the API names of the objects that the user may see; None when the org does not say."""
        try:
            return object_names(self.session)
        except RequestRefused:
            return None

    def delivery_allowance(self) -> Limit | None:
        """Return how many events the org may still be sent in 24 hours; None when it does not tell this user."""
        return self._allowance("DailyDeliveredPlatformEvents")

    def api_allowance(self) -> Limit | None:
        """Return how many API requests it takes in 24 hours; None when it does not tell this user."""
        return self._allowance("DailyApiRequests")

    def allowances(self) -> Mapping[str, Limit]:
        """All that the org allows in a day, by name; none when it does not tell this user."""
        try:
            return limits(self.session)
        except RequestRefused:
            return {}

    def _allowance(self, name: str) -> Limit | None:
        return self.allowances().get(name)

    def record_counts(self, entities: Sequence[str]) -> Mapping[str, int]:
        """About how many records each has; none when the org does not tell this user."""
        try:
            return record_counts(self.session, entities)
        except (RequestRefused, ApiLimitReached):
            return {}

    def newest_schema(self, entity: str, described: Described, now_ms: int, *, polled: bool = False) -> EventSchema:
        """Return the schema that the entity's next event will have, beside what describe has just said; of one that is
        `polled`, and has no events, that of its fields. Raises what the transport refuses."""
        if polled:
            schema = change_event_schema(self.session, change_event_of(entity))
            carried = carried_fields(schema, described.object) if schema is not None else None
            return EventSchema(*schema_of(described.object, carried), entity, now_ms, described.json)
        schema_id = self.transport.newest_schema_id(entity)
        return EventSchema(schema_id, self.transport.schema(schema_id), entity, now_ms, described.json)


@contextmanager
def connect(settings: Settings, *, sleep: Callable[[float], None] = clock.sleep) -> Iterator[OrgConnection]:
    """Open the org of the settings; closed at the end, whatever happens. `sleep` makes the pauses between tries."""
    with OrgSession(settings, sleep=sleep) as session:

        def another(channel: str) -> Transport:
            return new_transport(settings, session, sleep, channel)

        schemas = payload_schemas(settings.channel_schemas)
        with closing(another(settings.channels[0])) as transport:
            limits = VanishLimits(settings.vanish_percent, settings.vanish_rows)
            from_earliest = settings.replay_preset == EARLIEST
            privacy, view_all, instance = Privacy.of(settings), ViewAll(session), InstanceName(session)
            yield OrgConnection(
                session,
                transport,
                privacy,
                view_all,
                limits,
                instance,
                another,
                from_earliest,
                schemas,
                PollSettings(settings.poll, settings.poll_exclude, settings.poll_seconds, settings.visibility_seconds),
            )
