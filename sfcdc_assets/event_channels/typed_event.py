"""One delivered event as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import pyarrow as pa

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.change_events.type_conversion import CellValue
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.streams.delivered_event import DeliveredEvent

NOT_KNOWN_YET = "not known yet: "
"""Begins the `_problem` of an event that waits to be typed."""


class NotKnownYet(SfcdcError):
    """What the fields of an event are cannot be had now."""

    def __init__(self, channel: str, subject: str) -> None:
        self.channel, self.subject = channel, subject
        super().__init__(
            f"{channel}: {subject} is not known yet, because the org does not give it out now. Events that need it are "
            "kept as they were delivered and typed later; where settings of privacy forbid that, they wait in the org. "
            "`sfcdc doctor` shows what the org refuses."
        )


@dataclass(frozen=True)
class TypedEvent:
    """What an event says. `created_ms`: when Salesforce made it (epoch ms, UTC), None where it does not say.

    `own`: values of the columns that only its kind has. `values`: those of its fields, by column; null is written where
    the event has no value. `rescued`: values (as JSON has them) without a column, or that do not fit theirs; `problem`:
    why, or why nothing of the event could be read. `keeps_bytes`: false where the settings of privacy hide some of it.
    `identity`: what tells the event from others with the same event id, if there may be any. `waits`: its values are
    read when it is known what its fields are.
    """

    created_ms: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[Column, CellValue] = field(default_factory=dict)
    rescued: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None
    keeps_bytes: bool = True
    identity: str = ""
    waits: bool = False


def event_key(event: DeliveredEvent, typed: TypedEvent) -> str:
    """Return what an event is known again by, however it is delivered: a digest, 32 hexadecimal digits."""
    text = f"{event.event_id}\0{typed.identity}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


class EventReader(Protocol):
    """What one kind of channel needs to read its events."""

    @property
    def own_columns(self) -> pa.Schema:
        """Columns that every table of the kind has, beside those of all kinds."""

    @property
    def keeps_unread(self) -> bool:
        """Whether the settings of privacy let the bytes of an event be kept of which nothing is known."""

    def read(self, event: DeliveredEvent) -> TypedEvent:
        """Return the event's values. An event that cannot be read is one with a `problem`, not an error: the stream
        goes on. Raises what the org answers where it has to be asked for fields or schemas."""


def read_event(reader: EventReader, event: DeliveredEvent, *, has_landed: bool = False) -> TypedEvent:
    """Return what a reader says of an event. Whatever is in it stops nothing: one at which the reader fails is one with
    a `problem`, and its bytes are kept. `has_landed`: its bytes are kept already, so that it may wait. Raises what the
    org answers (`SfcdcError`)."""
    read = outcome_of(reader.read, event)
    if isinstance(read, NotKnownYet) and (reader.keeps_unread or has_landed):
        return TypedEvent(problem=f"{NOT_KNOWN_YET}{read.subject}", identity=event.mark, waits=True)
    if isinstance(read, SfcdcError):
        raise read
    if isinstance(read, Exception):
        problem = f"the event cannot be read ({type(read).__name__})"
        return TypedEvent(problem=problem, keeps_bytes=reader.keeps_unread, identity=event.mark)
    return read
