"""The org as the pipeline uses it: one REST session and one transport of its streams, with the same token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from sfcdc_assets.change_events.event_schema import parse_change_schema
from sfcdc_assets.change_events.privacy import Privacy
from sfcdc_assets.event_channels.payload_schema import PayloadSchema, payload_schemas
from sfcdc_assets.lake.tables.schemas import EventSchema
from sfcdc_assets.polls.object_files import read_object_files
from sfcdc_assets.polls.object_schema import carried_fields, schema_of
from sfcdc_assets.polls.polled_objects import PollSelection, PollSettings, polled_objects
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import ChannelMembers, change_event_of, channel_members
from sfcdc_assets.salesforce.describe import Described, change_event_schema, describe_whole, object_names, objects
from sfcdc_assets.salesforce.errors import NO_ANSWER, EntityNotReadable, RequestRefused
from sfcdc_assets.salesforce.instance import InstanceName
from sfcdc_assets.salesforce.limits import Limit, limits, record_counts
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.view_all import ViewAll
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.streams.checkpoint import EARLIEST
from sfcdc_assets.streams.errors import AuthenticationRefused, TransportUnavailable
from sfcdc_assets.streams.open_transport import new_transport
from sfcdc_assets.streams.rest_schemas import RestSchemas
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
    on_allowances: Callable[[Mapping[str, Limit]], object] = lambda _: None
    """Is told what the org says of its allowances, whenever it is asked."""
    refused_objects: Callable[[], Mapping[str, str]] = dict
    """Objects that could not be copied, and why, as the warehouse has noted it; none where there is no warehouse."""

    def vanish_limits_of(self, entity: str) -> VanishLimits:
        """Return how much of an entity may be gone at once."""
        percent = self.poll.of(entity).vanish_percent
        return self.vanish_limits if percent is None else replace(self.vanish_limits, percent=percent)

    def members(self, channel: str) -> ChannelMembers | None:
        """Entities of a channel, and their filters, as the org's setup lists them; None when it does not say. Those
        that are polled are what the settings take of the org's objects."""
        if is_polled(channel):
            return ChannelMembers(self.polled_objects().polled)
        return channel_members(self.session, channel)

    def polled_objects(self) -> PollSelection:
        """Return the objects that are polled, and those that the patterns of the settings leave out, with the
        reasons."""
        return polled_objects(self.poll, objects(self.session), self.refused_objects())

    def condition_of(self, entity: str, channel: str) -> str | None:
        """Return the condition of the records that are in the table of an entity; None for all."""
        return self.poll.of(entity).where if is_polled(channel) else None

    def without_refused(self, channel: str, members: ChannelMembers | None) -> ChannelMembers | None:
        """Return members that were listed a while ago without those that have refused a copy since."""
        if members is None or not is_polled(channel):
            return members
        refused = self.refused_objects()
        kept = tuple(each for each in members.entities if each not in refused or self.poll.names(each))
        return replace(members, entities=kept)

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
        """Return how many events the org may still be sent in 24 hours; None when it does not tell this user, or gives
        no answer (`NO_ANSWER`): a channel begins all the same."""
        try:
            return self._allowance("DailyDeliveredPlatformEvents")
        except NO_ANSWER:
            return None

    def api_allowance(self) -> Limit | None:
        """Return how many API requests it takes in 24 hours; None when it does not tell this user."""
        return self._allowance("DailyApiRequests")

    def allowances(self) -> Mapping[str, Limit]:
        """All that the org allows in a day, by name; none when it does not tell this user."""
        try:
            found = limits(self.session)
        except RequestRefused:
            return {}
        self.on_allowances(found)
        return found

    def _allowance(self, name: str) -> Limit | None:
        return self.allowances().get(name)

    def record_counts(self, entities: Sequence[str]) -> Mapping[str, int]:
        """About how many records each has; none when the org does not tell this user, or gives no answer
        (`NO_ANSWER`)."""
        try:
            return record_counts(self.session, entities)
        except NO_ANSWER:
            return {}

    def newest_schema(self, entity: str, described: Described, now_ms: int, *, polled: bool = False) -> EventSchema:
        """Return the schema that the entity's next event will have, beside what describe has just said; of one that is
        `polled`, and has no events, that of its fields. Raises what the transport refuses; where its service is away,
        what REST refuses; and `EventSchemaError` for what is no change event's."""
        if polled:
            schema = change_event_schema(self.session, change_event_of(entity))
            carried = carried_fields(schema, described.object) if schema is not None else None
            wanted = self.poll.of(entity).fields
            return EventSchema(*schema_of(described.object, carried, wanted), entity, now_ms, described.json)
        try:
            schema_id = self.transport.newest_schema_id(entity)
            text = self.transport.schema(schema_id)
        except (TransportUnavailable, AuthenticationRefused):
            # A copy needs no stream: REST has the same schemas.
            schemas = RestSchemas(self.session)
            schema_id = schemas.newest_id(entity)
            text = schemas.schema(schema_id)
        parse_change_schema(text)
        return EventSchema(schema_id, text, entity, now_ms, described.json)


@contextmanager
def connect(
    settings: Settings,
    *,
    sleep: Callable[[float], None] = clock.sleep,
    on_allowances: Callable[[Mapping[str, Limit]], object] = lambda _: None,
) -> Iterator[OrgConnection]:
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
                PollSettings(
                    settings.poll,
                    settings.poll_exclude,
                    settings.poll_seconds,
                    settings.visibility_seconds,
                    settings.poll_reread_hours * 3600,
                    settings.poll_count_hours * 3600,
                    read_object_files(settings.poll_objects, is_named="poll_objects" in settings.model_fields_set)
                    if settings.poll
                    else {},
                    percent=settings.poll_percent,
                    reserve_percent=settings.snapshot_reserve_percent,
                    only=settings.entities,
                    overlap_minutes=settings.poll_overlap_minutes,
                ),
                on_allowances,
            )
