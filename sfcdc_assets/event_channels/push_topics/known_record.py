"""What is known of one record of a PushTopic: the newest known value of each field, whether it is deleted, whether it
left the topic's filter.

Salesforce promises no order of a transaction's notifications, and one may lack fields: of a deletion it has the Id
alone, and fields that are hidden from the user are left out. So what is known is a join semilattice. Each observation
(a notification, or a read by the topic's own query) has a stamp, stamps are in a total order, and of two observations
of a field the one with the higher stamp counts. Joining is commutative, associative and idempotent: the order in which
notifications come, the batches they come in, and those that come twice make no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import Any, NamedTuple


class Stamp(NamedTuple):
    """When an observation was made, in Salesforce's own order: `createdDate`, then the replay id (Streaming API
    Developer Guide, "Notification Message Order").

    A read stands for every notification that had come before it: it has the stamp of the newest of these, and the time
    of the read (epoch ms by our clock; 0 of a notification) puts it after that one. Notifications with a later
    createdDate go on top of it, whatever our clock says.
    """

    created_ms: int
    replay: tuple[int, str]
    """The replay id's length and text: numbers of different lengths are in their order so."""
    read_at_ms: int = 0
    position: int = 0
    """In the channel's order: of two notifications that say the same of themselves, the one that came later."""

    @classmethod
    def of_notification(cls, created_ms: int | None, replay_id: bytes, position: int) -> Stamp:
        """One without a createdDate is older than all that have one."""
        text = replay_id.decode("ascii", "backslashreplace")
        return cls(-1 if created_ms is None else created_ms, (len(text), text), 0, position)

    def read_after(self, at_ms: int) -> Stamp:
        """Return the stamp of a read, made at a time when this was the newest notification that it stands for."""
        return Stamp(self.created_ms, self.replay, at_ms, self.position)


BEFORE_ALL = Stamp(-1, (0, ""))
"""Before any notification: where a read stands for none."""


class Standing(StrEnum):
    """What became of the record."""

    THERE = "there"
    DELETED = "deleted"
    LEFT = "left"
    """The topic's query does not find it: it left the filter, or was deleted while it was outside. That raises no
    notification."""


@dataclass(frozen=True)
class KnownRecord:
    """All that is known of one record: value and stamp by column, the standing, and the newest notification's kind."""

    values: Mapping[str, tuple[Stamp, Any]] = field(default_factory=dict)
    standing: tuple[Stamp, Standing] = (BEFORE_ALL, Standing.THERE)
    notified: tuple[Stamp, str] | None = None

    @classmethod
    def of_notification(cls, stamp: Stamp, kind: str, values: Mapping[str, Any]) -> KnownRecord:
        """`kind`: created, updated, deleted or undeleted; `values`: those that the notification carries, by column."""
        standing = Standing.DELETED if kind == "deleted" else Standing.THERE
        return cls({name: (stamp, value) for name, value in values.items()}, (stamp, standing), (stamp, kind))

    @classmethod
    def of_read(cls, stamp: Stamp, values: Mapping[str, Any]) -> KnownRecord:
        """Return a record that the topic's query found so."""
        return cls({name: (stamp, value) for name, value in values.items()}, (stamp, Standing.THERE))

    @classmethod
    def of_absence(cls, stamp: Stamp) -> KnownRecord:
        """Return a record that the topic's query did not find."""
        return cls({}, (stamp, Standing.LEFT))

    def joined(self, other: KnownRecord) -> KnownRecord:
        """Return what both together know."""
        values = dict(self.values)
        for name, observed in other.values.items():
            values[name] = _newer(values.get(name, observed), observed)
        notified = [each for each in (self.notified, other.notified) if each is not None]
        return KnownRecord(
            values, _newer(self.standing, other.standing), max(notified, key=_stamp) if notified else None
        )

    @property
    def left_at_ms(self) -> int | None:
        """When the query first did not find it any more (epoch ms); None while it does, or was not asked since."""
        stamp, standing = self.standing
        return stamp.read_at_ms if standing is Standing.LEFT else None

    @property
    def read_at_ms(self) -> int | None:
        """When the newest values that are from a read were read (epoch ms); None where all are from notifications."""
        return max((stamp.read_at_ms for stamp, _ in self.values.values()), default=0) or None

    def plain_values(self) -> dict[str, Any]:
        """Return the values by column, without the stamps."""
        return {name: value for name, (_, value) in self.values.items()}


def join(observations: Iterable[KnownRecord]) -> KnownRecord:
    """Return what they know together; nothing of none."""
    return reduce(KnownRecord.joined, observations, KnownRecord())


def _newer(one: tuple[Stamp, Any], other: tuple[Stamp, Any]) -> tuple[Stamp, Any]:
    return other if other[0] > one[0] else one


def _stamp(observed: tuple[Stamp, str]) -> Stamp:
    return observed[0]
