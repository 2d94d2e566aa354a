"""What there is at one moment of the model: the org and its stream, what is durable, and what processes have in memory.

All of it is numbers in tuples, so that a state is hashed and compared at once. A transaction has a bit; what a record
is, is the set of the transactions that changed it, so that a change which is missing shows for good. A place in the
stream is the number of events before it. An entity has one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

ONE, SIBLINGS, APART, GAP = range(4)
"""Transactions: one event; two events, of two entities, that share a replay id; two with ids of their own; one that
tells that a record has changed, and not to what."""
BREAK = 99
"""The row of a position that stands for a lost checkpoint."""
MEMORY = 1 << 16
"""Answers of each function that are remembered: most steps change one part of a state."""
UNTRUSTED = 1 << 20
"""What a read of the org says that is older than an event before its watermark."""


@dataclass(frozen=True)
class Bounds:
    """How much of everything a slice of the model has. Without `landers` events are landed in one step each."""

    kinds: tuple[int, ...]
    transactions: int
    landers: int = 0
    writers: int = 0
    crashes: int = 0
    losses: int = 0
    reads: bool = False
    from_nothing: bool = False
    """Entities are not copied yet; otherwise the tables of both stand at position 0."""
    second_copies: int = 0
    """Times that the first entity is copied once more without need, as a person may ask."""
    cuts: bool = False
    consumer: bool = False


class Event(NamedTuple):
    """One event of the stream; `reported`: it has the values that it changed."""

    transaction: int
    group: int
    entity: int
    reported: bool


class Channel(NamedTuple):
    """What `raw_events` has: `rows[position - 1]` is the number of an event. `resume`: the place after which the stream
    is resumed; `open_from`: position of the first event of a replay id of which more may come. `through`: so many
    transactions are known to be landed and complete (what a reading reports). `refused`: the org has refused the
    resume point."""

    rows: tuple[int, ...] = ()
    complete: int = 0
    resume: int = 0
    open_from: int = 0
    through: int = 0
    refused: int = 0


class Lander(NamedTuple):
    """A process that reads the stream. It knows the channel at position `base`, and holds the events from `start` to
    `end`, but those that it knew as landed when it subscribed (`known`, a bit each). `quiet`: 1, the service has said
    that nothing follows; 2, for the settling time. `fresh`: nobody has committed since it looked."""

    phase: int = 0
    base: int = 0
    start: int = 0
    end: int = 0
    quiet: int = 0
    through: int = 0
    fresh: int = 0
    known: int = 0


class Row(NamedTuple):
    """A record's row in `current_state`. `stands`: up to which position it has everything."""

    mask: int
    begin: int
    stands: int
    doubt: int
    first_batch: int
    last_batch: int


class Version(NamedTuple):
    """A row of `history`."""

    mask: int
    begin: int
    end: int
    batch: int


class Tables(NamedTuple):
    """What `current_state` has: its row, and the entity's checkpoint. `taken`: reads of the org that are in it. `kept`:
    what was there before the last batch that went back."""

    position: int = 0
    batch: int = 0
    taken: int = 0
    suspected: int = 0
    read_at: int = 0
    back_in: int = 0
    back_to: int = 0
    row: Row | tuple[()] = ()
    kept: tuple[Row, tuple[Version, ...]] | tuple[()] = ()


class Read(NamedTuple):
    """A read of the org in `snapshot`: a whole copy, or a record read back. `at`: transactions there were then."""

    whole: int
    watermark: int
    mask: int
    at: int


class Entity(NamedTuple):
    """`appended`: the number of the last batch that wrote into `history`. `record`, `entity`: position of the last open
    entry of the reconciliation ledger about the record, and about the entity; 0 for none."""

    tables: Tables = Tables()
    history: tuple[Version, ...] = ()
    appended: int = 0
    record: int = 0
    entity: int = 0
    reads: tuple[Read, ...] = ()


class Writer(NamedTuple):
    """A process that applies. What it will commit was found when it opened the tables; `state_fresh`, `history_fresh`:
    nobody has committed to them since."""

    phase: int = 0
    entity: int = 0
    state_fresh: int = 0
    history_fresh: int = 0
    after: Tables | tuple[()] = ()
    superseded: tuple[Version, ...] = ()
    record: int = 0


class Reader(NamedTuple):
    """A process that reads the org."""

    phase: int = 0
    whole: int = 0
    entity: int = 0
    watermark: int = 0
    mask: int = 0
    at: int = 0


class CutEntity(NamedTuple):
    """An entity's tables at the versions of a cut."""

    tables: Tables
    history: tuple[Version, ...]
    lags: int


class Consumer(NamedTuple):
    """Who asks what has changed in the first entity: its token, and what it has. `wrong`: it was told a change from
    what it never had."""

    batch: int = 0
    position: int = 0
    mask: int = 0
    doubt: int = 0
    wrong: int = 0


class World(NamedTuple):
    """`log`: the transactions that the org has committed, of whose events `published` are in the stream, those before
    `earliest` no more; REST shows the first `visible` transactions. `crashes`, `losses`, `copies` are still to come."""

    log: tuple[int, ...]
    published: int
    visible: int
    earliest: int
    channel: Channel
    landers: tuple[Lander, ...]
    entities: tuple[Entity, Entity]
    writers: tuple[Writer, ...]
    reader: Reader
    cut_at: int
    cut: tuple[CutEntity, ...]
    consumer: Consumer
    crashes: int
    losses: int
    copies: int


def first(bounds: Bounds) -> World:
    """Return the state in which nothing has happened."""
    entity = Entity()
    if not bounds.from_nothing:
        entity = Entity(Tables(batch=1, taken=1, row=Row(0, 0, 0, 0, 1, 1)), appended=1, reads=(Read(1, 0, 0, 0),))
    return World(
        (),
        0,
        0,
        0,
        Channel(),
        (Lander(),) * bounds.landers,
        (entity, entity),
        (Writer(),) * bounds.writers,
        Reader(),
        0,
        (),
        Consumer(),
        bounds.crashes,
        bounds.losses,
        bounds.second_copies,
    )


@lru_cache(1 << 12)
def events_of(log: tuple[int, ...]) -> tuple[Event, ...]:
    """Return the stream of a log."""
    found: list[Event] = []
    for number, kind in enumerate(log):
        group = found[-1].group + 1 if found else 0
        found.append(Event(number, group, 0, kind != GAP))
        if kind in (SIBLINGS, APART):
            found.append(Event(number, group + (kind == APART), 1, True))
    return tuple(found)


@lru_cache(1 << 12)
def org_after(log: tuple[int, ...], transactions: int, entity: int) -> int:
    """Return what the entity's record is in the org after so many transactions."""
    of_entity = (e.transaction for e in events_of(log) if e.entity == entity and e.transaction < transactions)
    return sum(1 << each for each in dict.fromkeys(of_entity))


@lru_cache(1 << 14)
def is_cut_through(log: tuple[int, ...], place: int, *, by_group: bool) -> bool:
    """Return whether a place of the stream lies within a transaction, or within a replay id."""
    events = events_of(log)
    if not 0 < place < len(events):
        return False
    before, after = events[place - 1], events[place]
    return before.group == after.group if by_group else before.transaction == after.transaction


def position_of_events(channel: Channel, log: tuple[int, ...], entity: int, after: int, up_to: int) -> list[int]:
    """Return the positions of an entity's events after one, up to another."""
    events, rows = events_of(log), channel.rows
    return [p for p in range(after + 1, up_to + 1) if rows[p - 1] != BREAK and events[rows[p - 1]].entity == entity]


def part(tables: Tables, history: Sequence[Version]) -> tuple[Version, ...]:
    """Return the versions that are part of the tables."""
    return tuple(
        each
        for each in history
        if each.batch <= tables.batch and (each.batch >= tables.back_in or each.end <= tables.back_to)
    )
