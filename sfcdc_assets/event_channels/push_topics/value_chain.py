"""Who set this value: the chain of a field's values in one record of a PushTopic, from all that was observed of it.

Observations are in the order of their stamps, which is the order in which they count (`known_record.Stamp`), and not
that in which they came. A read is known by what is left of it: the values that no newer notification has replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sfcdc_assets.event_channels.push_topics.known_record import KnownRecord, Stamp, Standing

READ, LEFT = "read", "left"
"""Kinds of observations that are no notifications: the topic's query found the record, or did not find it any more."""


@dataclass(frozen=True)
class Observation:
    """What was observed of the record: the values that a notification carried, or that a read showed, by column."""

    stamp: Stamp
    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at_ms(self) -> int | None:
        """When Salesforce made the notification, or when the query was asked (epoch ms, UTC)."""
        if self.kind in (READ, LEFT):
            return self.stamp.read_at_ms
        return None if self.stamp.created_ms < 0 else self.stamp.created_ms


@dataclass(frozen=True)
class Link:
    """One value that a field had: what set it, and what came next, if anything did."""

    value: Any
    set_by: Observation
    until: Observation | None = None


def reads_of(known: KnownRecord) -> list[Observation]:
    """Return what is left of reads in what is known of a record."""
    values: dict[Stamp, dict[str, Any]] = {}
    for name, (stamp, value) in known.values.items():
        if stamp.read_at_ms:
            values.setdefault(stamp, {})[name] = value
    found = [Observation(stamp, READ, of_stamp) for stamp, of_stamp in values.items()]
    stamp, standing = known.standing
    return [*found, Observation(stamp, LEFT)] if standing is Standing.LEFT else found


def value_chain(observations: Iterable[Observation], column: str) -> Sequence[Link]:
    """Return the values of a field, the oldest first; none where no observation has it.

    An observation is a link when it is the first to have the field, when it shows another value, and when the record
    was deleted or came back, left the topic's filter or was found again.
    """
    links: list[Link] = []
    standing = Standing.THERE
    for each in sorted(observations, key=lambda observation: observation.stamp):
        became = {"deleted": Standing.DELETED, LEFT: Standing.LEFT}.get(each.kind, Standing.THERE)
        is_other = became is not standing
        standing = became
        value = each.values.get(column, links[-1].value if links else None)
        is_known = bool(links) or column in each.values
        if is_known and (not links or is_other or value != links[-1].value):
            if links:
                links[-1] = Link(links[-1].value, links[-1].set_by, each)
            links.append(Link(value, each))
    return links
