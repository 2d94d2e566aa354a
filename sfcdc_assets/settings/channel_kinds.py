"""The kinds of channels, known by their names, and the table that each channel is landed in.

Change events of all channels share `raw_events`, because transactions span entities; it has the positions of polls too.
Every other channel has an append-only table of its own, so that its events and the place to resume from are one commit
(guarantee 1).
"""

from __future__ import annotations

import re
from enum import StrEnum
from hashlib import blake2b

_HOUR_MS = 3_600_000
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_STEM = 60


class ChannelKind(StrEnum):
    """What a channel carries; the value of those with tables of their own is the folder of these."""

    CHANGE_EVENTS = "raw_events"
    """`/data/...`, and `managed:<DeveloperName>`: the same through a managed event subscription of the org."""
    PUSH_TOPIC = "push_topic_events"
    """`/topic/<Name>`, and the same with a filter: `/topic/<Name>?Industry='Energy'`."""
    GENERIC = "generic_events"
    """`/u/...`."""
    PLATFORM_EVENT = "platform_events"
    """`/event/<Name>__e`, `/event/<Name>__chn` and Salesforce's own, and `managed:/event/<DeveloperName>`: the same
    through a managed event subscription."""
    POLLED_OBJECTS = "polled_objects"
    """`/poll/objects`: objects that are asked for what changed, because no channel carries them. It is no channel of
    the org's, and has no table of its own: its positions are those of the polls."""

    @property
    def retention_ms(self) -> int:
        """How long Salesforce keeps its events at least (Streaming API guide, "Message Durability"; Platform Events
        guide, "Event Message Durability": 72 hours for high-volume events and change events)."""
        return 24 * _HOUR_MS if self in ONLY_COMETD else 72 * _HOUR_MS


PUBSUB, COMETD = "pubsub", "cometd"
"""Protocols that a channel can be read by."""
PROTOCOLS = (PUBSUB, COMETD)
ONLY_COMETD = frozenset({ChannelKind.PUSH_TOPIC, ChannelKind.GENERIC})
"""Kinds that the Pub/Sub API does not have."""
APPEND_ONLY = (ChannelKind.PUSH_TOPIC, ChannelKind.GENERIC, ChannelKind.PLATFORM_EVENT)
"""Kinds whose channels have tables of their own."""

CUSTOM_CHANNEL_SUFFIX = "__chn"
"""How the name of a custom channel ends, which may carry several kinds of events."""
POLLED = "/poll/objects"
"""The channel of all objects that are polled (`SFCDC_POLL`)."""
MANAGED = "managed:"
_MANAGED_EVENTS = "managed:/event/"
"""The topic of a managed event subscription is known to the org alone, and which tables a channel has must be known
without asking it: so its kind is in the name. The Pub/Sub API has change events and platform events, no other kind."""
_PREFIXES = {
    _MANAGED_EVENTS: ChannelKind.PLATFORM_EVENT,
    MANAGED: ChannelKind.CHANGE_EVENTS,
    "/data/": ChannelKind.CHANGE_EVENTS,
    "/topic/": ChannelKind.PUSH_TOPIC,
    "/u/": ChannelKind.GENERIC,
    "/event/": ChannelKind.PLATFORM_EVENT,
    "/poll/": ChannelKind.POLLED_OBJECTS,
}
_DEVELOPER_NAME = r"[A-Za-z](?:_?[A-Za-z0-9])*"
"""Letters, digits and single underscores inside: no name of an event (`Order__e`) is one."""
_NAMES = {
    ChannelKind.CHANGE_EVENTS: re.compile(rf"/data/[A-Za-z]\w*|{MANAGED}{_DEVELOPER_NAME}", re.ASCII),
    ChannelKind.PUSH_TOPIC: re.compile(r"/topic/[A-Za-z]\w*(\?.+)?", re.ASCII),
    ChannelKind.GENERIC: re.compile(r"/u(/\w+)+", re.ASCII),
    ChannelKind.PLATFORM_EVENT: re.compile(rf"/event/[A-Za-z]\w*|{_MANAGED_EVENTS}{_DEVELOPER_NAME}", re.ASCII),
    ChannelKind.POLLED_OBJECTS: re.compile(POLLED),
}
_CONDITION = r"\s*\w+\s*=\s*(?:'(?:[^'\\]|\\.)*'|[^'&\s]+)\s*"
_FILTER = re.compile(rf"{_CONDITION}(?:&{_CONDITION})*")


def kind_of(channel: str) -> ChannelKind:
    """Return the kind of a channel. Raises `ValueError` for what is not the name of one, or has a filter that is
    none."""
    found = next((kind for prefix, kind in _PREFIXES.items() if channel.startswith(prefix)), None)
    if found is None or not _NAMES[found].fullmatch(channel):
        if channel.startswith(MANAGED):
            raise ValueError(
                f"{channel!r} does not name a managed event subscription; write its developer name (Orders), not its "
                "topic: managed:Orders for one of change events, managed:/event/Orders for one of platform events"
            )
        raise ValueError(
            f"{channel!r} is not a channel name; write it as /data/ChangeEvents, /data/AccountChangeEvent, "
            "/topic/InvoiceUpdates, /u/Notifications or /event/Order__e"
        )
    _, mark, expression = channel.partition("?")
    if mark and not _FILTER.fullmatch(expression):
        raise ValueError(
            f"{channel!r} has a malformed filter; write it as "
            f"{channel.partition('?')[0]}?Industry='Energy'&BillingCity='Oslo' (& means OR there)"
        )
    return found


def feeds_entities(channel: str) -> bool:
    """Return whether what the channel brings is of entities, which have tables: change events, or polled objects."""
    return carries_changes(channel) or is_polled(channel)


def carries_changes(channel: str) -> bool:
    """Return whether the channel is one of change events."""
    return channel.startswith(("/data/", MANAGED)) and not channel.startswith(_MANAGED_EVENTS)


def is_polled(channel: str) -> bool:
    """Return whether the channel stands for objects that are polled."""
    return channel == POLLED


def managed_name(channel: str) -> str | None:
    """Return the developer name of the managed event subscription that the channel is read through; None for others."""
    return _without_prefix(channel) if channel.startswith(MANAGED) else None


def managed_channel(developer_name: str, kind: ChannelKind | None) -> str | None:
    """Return the channel of a managed event subscription whose topic is of a kind; None for kinds that have none."""
    prefix = next((each for each, of in _PREFIXES.items() if of is kind and each.startswith(MANAGED)), None)
    return None if prefix is None else prefix + developer_name


def own_name(channel: str) -> str:
    """Return the channel without its prefix and filter: `InvoiceUpdates`, `notifications/orders`, `Order__e`."""
    return _without_prefix(channel).partition("?")[0]


def only_event(channel: str) -> str | None:
    """Return the platform event that a channel of them carries; None for a custom channel or a managed subscription,
    which may bring several."""
    name = own_name(channel)
    return None if managed_name(channel) is not None or name.endswith(CUSTOM_CHANNEL_SUFFIX) else name


def folder_of(channel: str) -> str:
    """Return the folder of the channel's table, and its partition in Dagster; of a channel of change events, which
    share a table, its name where only letters, digits and underscores may stand.

    A name of letters, digits and underscores is its own folder. Any other has its letters and digits, then a hyphen and
    a digest, so that no two channels share one and no file system, URI or shell has to quote it. `managed_` is before
    the name of a managed event subscription, which no event's name begins with.
    """
    name = _without_prefix(channel) if managed_name(channel) is None else f"managed_{managed_name(channel)}"
    if _PLAIN.fullmatch(name):
        return name
    stem = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST_STEM]
    return f"{stem}-{blake2b(name.encode(), digest_size=4).hexdigest()}"


def table_of(channel: str) -> str:
    """Path of the table below the warehouse: `raw_events`, `generic_events/Notifications`."""
    kind = kind_of(channel)
    return ChannelKind.CHANGE_EVENTS.value if feeds_entities(channel) else f"{kind.value}/{folder_of(channel)}"


def protocol_of(written: str) -> tuple[str, str | None]:
    """Split a channel as the settings write it -> its name, and the protocol that it is to be read by, if one is named:
    `cometd:/data/ChangeEvents` -> (`/data/ChangeEvents`, `cometd`). Raises `ValueError` for a protocol that does not
    have the channel."""
    prefix, colon, name = written.partition(":")
    if not colon or prefix not in PROTOCOLS:
        return written, None
    is_only_cometd = kind_of(name) in ONLY_COMETD
    if (prefix == PUBSUB and is_only_cometd) or (prefix == COMETD and managed_name(name) is not None):
        other = COMETD if is_only_cometd else PUBSUB
        raise ValueError(f"{written!r}: {name} can be read over {other} only; leave the prefix out")
    return name, prefix


def split_channels(setting: str) -> tuple[str, ...]:
    """Return the channels of a comma-separated setting; a comma in the quotes of a filter separates nothing."""
    parts = re.findall(r"(?:[^,']|'(?:[^'\\]|\\.)*'|')+", setting)
    return tuple(part.strip() for part in parts if part.strip())


def _without_prefix(channel: str) -> str:
    return next(channel.removeprefix(each) for each in _PREFIXES if channel.startswith(each))
