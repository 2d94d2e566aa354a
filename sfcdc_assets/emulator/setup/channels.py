"""Channels of events and their members, as the Tooling API makes them (docs/salesforce-streams.md, "Channels and
members").

`ChangeEvents` is there in every org and no record of its own; its members are `EmulatedOrg.selected_entities`. Custom
channels `Name__chn` have the members given to them here: objects those of kind `data`, whose topic is
`/data/Name__chn`, platform events those of kind `event`, whose topic is `/event/Name__chn`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sfcdc_assets.emulator.definitions.object_definition import ObjectDefinition
from sfcdc_assets.emulator.definitions.platform_event_definitions import PlatformEventDefinitions
from sfcdc_assets.emulator.errors import QueryError, RecordError
from sfcdc_assets.emulator.events.avro.event_schema import event_name
from sfcdc_assets.emulator.events.event_filter import check_filter, filtered_fields
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org_core import OrgCore

CHANGE_EVENTS = "ChangeEvents"
MAX_CHANNELS = 100
MAX_ENRICHED_FIELDS = 10
Kind = Literal["data", "event"]
_CUSTOM_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*__chn")


@dataclass(frozen=True)
class Channel:
    """A custom channel. `kind`: what its members are, which begins the name of its topic."""

    id: str
    name: str
    label: str
    created: int
    kind: Kind = "data"

    @property
    def topic(self) -> str:
        """`/data/Name__chn` or `/event/Name__chn`."""
        return f"/{self.kind}/{self.name}"


@dataclass(frozen=True)
class ChannelMember:
    """An object, or a platform event, on a channel. `enriched_fields` are flat API names, or those of compounds;
    `filter_expression`: only events of records that fulfil it are on the channel."""

    id: str
    channel: str
    entity: str
    enriched_fields: tuple[str, ...]
    filter_expression: str | None
    created: int
    modified: int

    @property
    def developer_name(self) -> str:
        """`SalesEvents_chn_AccountChangeEvent`: double underscores are single in it."""
        return f"{self.channel}_{event_name(self.entity)}".replace("__", "_")


class Channels:
    """The channels of one org, kept in its database. Raises RecordError for what cannot be done."""

    def __init__(self, org: OrgCore, platform_events: PlatformEventDefinitions) -> None:
        self._org, self._platform_events = org, platform_events
        self._database = org.database
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _channel (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE NOT NULL, "
            "label TEXT NOT NULL, created INTEGER NOT NULL)"
        )
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS _channel_member (number INTEGER PRIMARY KEY AUTOINCREMENT, "
            "channel TEXT NOT NULL, entity TEXT NOT NULL, enriched TEXT NOT NULL, created INTEGER NOT NULL, "
            "UNIQUE (channel, entity))"
        )
        columns = {row[1] for row in self._database.rows("PRAGMA table_info(_channel_member)")}
        if "filter" not in columns:
            self._database.execute("ALTER TABLE _channel_member ADD COLUMN filter TEXT")
        if "modified" not in columns:
            self._database.execute("ALTER TABLE _channel_member ADD COLUMN modified INTEGER NOT NULL DEFAULT 0")
            self._database.execute("UPDATE _channel_member SET modified = created")
        if "kind" not in {row[1] for row in self._database.rows("PRAGMA table_info(_channel)")}:
            self._database.execute("ALTER TABLE _channel ADD COLUMN kind TEXT NOT NULL DEFAULT 'data'")
        self._enriched: dict[tuple[str, str], tuple[str, ...]] = {}
        self._filters: dict[tuple[str, str], str] = {}
        self._of_entity: dict[str, tuple[str, ...]] = {}
        self._read()

    @property
    def published_entities(self) -> frozenset[str]:
        """Objects that raise events: those of any channel."""
        return frozenset(self._org.selected_entities) | self._of_entity.keys()

    def custom_channels_of(self, entity: str) -> Sequence[str]:
        """Return the custom channels an object is on."""
        return self._of_entity.get(entity, ())

    def enriched_fields(self, channel: str, entity: str) -> tuple[str, ...]:
        """Return stored fields that the object's events carry on a channel beside what changed, those that its filter
        names among them; compounds are their parts."""
        definition = self._org.definitions[entity]
        names: dict[str, None] = {}
        expression = self.filter_expression(channel, entity)
        filtered = filtered_fields(expression, definition) if expression else ()
        for name in (*self._enriched.get((channel, entity), ()), *filtered):
            names.update(dict.fromkeys(part.name for part in definition.components.get(name, ())) or {name: None})
        return tuple(names)

    def filter_expression(self, channel: str, entity: str) -> str | None:
        """Return what the object's records have to fulfil for their events to be on a channel; None: nothing."""
        return self._filters.get((channel, entity))

    def all(self) -> list[Channel]:
        """Return the custom channels, the oldest first."""
        rows = self._database.rows("SELECT number, name, label, created, kind FROM _channel ORDER BY number")
        return [Channel(self._id("0YL", number), *rest) for number, *rest in rows]

    def members(self) -> list[ChannelMember]:
        """Members of all channels: those of ChangeEvents first, in the order of `EmulatedOrg.selected_entities`."""
        with self._database.transaction():
            selected = self.follow_selection()
            rows = self._database.rows(
                "SELECT number, channel, entity, enriched, filter, created, modified FROM _channel_member "
                "ORDER BY number"
            )
        members = [
            ChannelMember(self._id("0v8", number), channel, entity, tuple(json.loads(enriched)), *rest)
            for number, channel, entity, enriched, *rest in rows
        ]
        places = {entity: place for place, entity in enumerate(selected)}
        last = len(places)
        return sorted(members, key=lambda one: places[one.entity] if one.channel == CHANGE_EVENTS else last)

    def follow_selection(self) -> list[str]:
        """Make the members of ChangeEvents those that are selected, and return their names. An object that was taken
        off and is put back has another member, with an id and times of its own: nothing of the old one is left. The
        caller has a transaction."""
        selected = list(dict.fromkeys(self._org.selected_entities))
        known = {
            str(entity)
            for (entity,) in self._database.rows(
                "SELECT entity FROM _channel_member WHERE channel = ?", (CHANGE_EVENTS,)
            )
        }
        self._database.execute_many(
            "DELETE FROM _channel_member WHERE channel = ? AND entity = ?",
            [(CHANGE_EVENTS, entity) for entity in sorted(known.difference(selected))],
        )
        now = self._org.clock()
        self._database.execute_many(
            "INSERT INTO _channel_member (channel, entity, enriched, created, modified) VALUES (?, ?, '[]', ?, ?)",
            [(CHANGE_EVENTS, entity, now, now) for entity in selected if entity not in known],
        )
        if known.difference(selected):
            self._read()
        return selected

    def create(self, name: str, label: str | None = None, kind: Kind = "data") -> Channel:
        """Return a new custom channel, without members."""
        if not _CUSTOM_NAME.fullmatch(name):
            raise RecordError("INVALID_NAME", f"{name!r} is no channel name: letters, digits and __chn at the end")
        channels = self.all()
        if any(channel.name.lower() == name.lower() for channel in channels):
            raise RecordError("DUPLICATE_DEVELOPER_NAME", f"there is already a channel {name}")
        if len(channels) >= MAX_CHANNELS:
            raise RecordError("LIMIT_EXCEEDED", f"an org has at most {MAX_CHANNELS} channels")
        self._database.execute(
            "INSERT INTO _channel (name, label, created, kind) VALUES (?, ?, ?, ?)",
            (name, label or name, self._org.clock(), kind),
        )
        return next(channel for channel in self.all() if channel.name == name)

    def rename_label(self, channel_id: str, label: str) -> None:
        """Change a channel's label; its name is for ever."""
        self._database.execute("UPDATE _channel SET label = ? WHERE name = ?", (label, self.channel(channel_id).name))

    def delete(self, channel_id: str) -> None:
        """Remove a channel with its members; events that are on it stay unread (https://developer.salesforce.com/docs/
        atlas.en-us.262.0.platform_events.meta/platform_events/platform_events_subscribe_custom_channels.htm)."""
        channel = self.channel(channel_id)
        with self._database.transaction():
            self._database.execute("DELETE FROM _channel_member WHERE channel = ?", (channel.name,))
            self._database.execute("DELETE FROM _channel WHERE name = ?", (channel.name,))
            self._read()

    def add_member(
        self, channel: str, entity: str, enriched_fields: Sequence[str] = (), filter_expression: str | None = None
    ) -> ChannelMember:
        """Put an object on a channel, custom or ChangeEvents, or a platform event on a custom one: its events are there
        from the next commit on, those of records (or with values) that fulfil the filter."""
        kinds: dict[str, Kind] = {CHANGE_EVENTS: "data", **{one.name: one.kind for one in self.all()}}
        if channel not in kinds:
            raise RecordError("INVALID_CROSS_REFERENCE_KEY", f"there is no channel {channel}", ("EventChannel",))
        self._check_kind(kinds[channel], entity)
        if any((one.channel, one.entity) == (channel, entity) for one in self.members()):
            raise RecordError("DUPLICATE_VALUE", f"{entity} is on {channel} already", ("SelectedEntity",))
        names = self._checked(channel, entity, enriched_fields)
        self._check_filter(channel, entity, filter_expression)
        with self._database.transaction():
            if channel == CHANGE_EVENTS:
                self._org.selected_entities.append(entity)
            now = self._org.clock()
            self._database.execute(
                "INSERT INTO _channel_member (channel, entity, enriched, filter, created, modified) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (channel, entity, json.dumps(names), filter_expression, now, now),
            )
            self._read()
        return next(one for one in self.members() if (one.channel, one.entity) == (channel, entity))

    def enrich(self, member_id: str, enriched_fields: Sequence[str]) -> None:
        """Replace a member's enriched fields."""
        member = self.member(member_id)
        names = self._checked(member.channel, member.entity, enriched_fields)
        self._database.execute(
            "UPDATE _channel_member SET enriched = ?, modified = ? WHERE channel = ? AND entity = ?",
            (json.dumps(names), self._org.clock(), member.channel, member.entity),
        )
        self._read()

    def filter_events(self, member_id: str, filter_expression: str | None) -> None:
        """Replace a member's filter; None: all events from now on."""
        member = self.member(member_id)
        self._check_filter(member.channel, member.entity, filter_expression)
        self._database.execute(
            "UPDATE _channel_member SET filter = ?, modified = ? WHERE channel = ? AND entity = ?",
            (filter_expression, self._org.clock(), member.channel, member.entity),
        )
        self._read()

    def remove_member(self, member_id: str) -> None:
        """Take an object off a channel; events that are there stay."""
        member = self.member(member_id)
        with self._database.transaction():
            if member.channel == CHANGE_EVENTS:
                self._org.selected_entities.remove(member.entity)
            self._database.execute(
                "DELETE FROM _channel_member WHERE channel = ? AND entity = ?", (member.channel, member.entity)
            )
            self._read()

    def rename_fields(self, entity: str, names: Mapping[str, str]) -> None:
        """Follow fields that were given other names."""
        for member in self.members():
            if member.entity == entity and set(member.enriched_fields) & names.keys():
                self.enrich(member.id, [names.get(name, name) for name in member.enriched_fields])

    def channel(self, channel_id: str) -> Channel:
        """Return a channel by its id of 15 or 18 characters. Raises RecordError NOT_FOUND."""
        found = next((one for one in self.all() if one.id[:15] == channel_id[:15]), None)
        if found is None:
            raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def member(self, member_id: str) -> ChannelMember:
        """Return a member by its id of 15 or 18 characters. Raises RecordError NOT_FOUND."""
        found = next((one for one in self.members() if one.id[:15] == member_id[:15]), None)
        if found is None:
            raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
        return found

    def _check_kind(self, kind: Kind, entity: str) -> None:
        """Check that a channel holds events of one product: of objects, or high-volume platform events."""
        event = self._platform_events.all.get(entity)
        if event is None and entity not in self._org.definitions:
            raise RecordError("INVALID_CROSS_REFERENCE_KEY", f"there is no object {entity}", ("SelectedEntity",))
        if event is None and not self._org.definitions[entity].has_change_events:
            message = f"{entity} cannot be selected for change data capture"
            raise RecordError("INVALID_CROSS_REFERENCE_KEY", message, ("SelectedEntity",))
        if (kind == "event") != (event is not None) or (event is not None and not event.is_high_volume):
            message = f"{entity} cannot be on a channel of channelType {kind}"
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", message, ("SelectedEntity",))

    def _shape(self, entity: str) -> ObjectDefinition:
        event = self._platform_events.all.get(entity)
        return self._org.definitions[entity] if event is None else event.filterable

    def _checked(self, channel: str, entity: str, names: Sequence[str]) -> list[str]:
        definition = self._shape(entity)
        if names and entity in self._platform_events.all:
            message = "platform events have no enriched fields"
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", message, ("EnrichedFields",))
        checked: dict[str, None] = {}
        for name in names:
            field = definition.field(name)
            if field is None or not field.in_change_events:
                raise RecordError(
                    "INVALID_FIELD", f"{entity}.{name} is no field that events carry", ("EnrichedFields",)
                )
            checked[field.name] = None
        elsewhere = {
            name
            for (other, of), fields in self._enriched.items()
            if of == entity and other != channel
            for name in fields
        }
        if len(elsewhere | checked.keys()) > MAX_ENRICHED_FIELDS:
            message = f"at most {MAX_ENRICHED_FIELDS} fields of an object can be enriched, over all channels"
            raise RecordError("LIMIT_EXCEEDED", message)
        return list(checked)

    def _check_filter(self, channel: str, entity: str, expression: str | None) -> None:
        if expression is None:
            return
        if channel == CHANGE_EVENTS:
            raise RecordError(
                "FIELD_INTEGRITY_EXCEPTION", "events of ChangeEvents cannot be filtered", ("FilterExpression",)
            )
        try:
            check_filter(expression, self._shape(entity))
        except QueryError as error:
            raise RecordError("FIELD_INTEGRITY_EXCEPTION", str(error), ("FilterExpression",)) from error

    def _read(self) -> None:
        rows = self._database.rows("SELECT channel, entity, enriched, filter FROM _channel_member ORDER BY number")
        self._enriched = {(channel, entity): tuple(json.loads(enriched)) for channel, entity, enriched, _ in rows}
        self._filters = {(channel, entity): expression for channel, entity, _, expression in rows if expression}
        of_entity: dict[str, tuple[str, ...]] = {}
        for channel, entity, _, _ in rows:
            if channel != CHANGE_EVENTS:
                of_entity[entity] = (*of_entity.get(entity, ()), channel)
        self._of_entity = of_entity

    def _id(self, prefix: str, number: int) -> str:
        return new_id(prefix, instance_characters(self._org.seed), number)
