"""What is noted of a simulated history besides what the org's own log has."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SnapshotTaken:
    """A snapshot of an entity: its number, its watermark, when it was begun and done by the simulated clock, the fields
    it read, and how many silent changes there were before it."""

    entity: str
    number: int
    position: int
    begun_at: int
    done_at: int
    fields: frozenset[str]
    silent: int


@dataclass(frozen=True)
class HiddenFields:
    """What an entity hid from its client since a commit, until the next such entry."""

    entity: str
    after_commit: int
    names: frozenset[str]


@dataclass(frozen=True)
class Unseen:
    """An entity whose changes raised no event, or not all of them, from a time of the simulated clock until another;
    None: they still do not. With `are_hidden` its events came, and reads of the org did not show all of its records."""

    entity: str
    since: int
    until: int | None
    are_hidden: bool = False


@dataclass
class Diary:
    """What happened besides what the org's own log has."""

    snapshots: list[SnapshotTaken] = field(default_factory=list)
    hidden: list[HiddenFields] = field(default_factory=list)
    unseen: list[Unseen] = field(default_factory=list)
    losses: list[int] = field(default_factory=list)
    """When the place in the stream was lost."""
    left_out: int = 0
    """The last transaction before a stream that was begun at LATEST; 0 where all were to come."""
    kinds: list[str] = field(default_factory=list)
    packed: int = 0
    """Files."""
    deaths: list[str] = field(default_factory=list)
    """The tables that were about to be committed to."""
    meetings: list[str] = field(default_factory=list)
    """The same, of two processes at once, with what the second one did."""
    retries: int = 0
    """How often the first of the two found that it has to begin again."""
    unreadable: dict[str, int] = field(default_factory=dict)
    """Table -> the oldest version that can still be read, where others have seen to that."""
