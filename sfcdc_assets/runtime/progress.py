"""What work reports of its progress while it goes on, to whoever observes it in this process.

`sfcdc sync` and `sfcdc verify` draw it on the terminal and add it up. Observers belong to the process, as handlers of
logging do: a run of Dagster gets its resources by configuration, so none can be handed to it. Observers are called by
the threads that do the work, and must not hold them up. Without one, to report costs next to nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class EventsDelivered:
    """Events came over the stream: each counts against the org's allowance of deliveries. `repeats`: of these, or of
    those reported before, so many are known to have come before."""

    channel: str
    events: int
    repeats: int = 0


@dataclass(frozen=True)
class StreamAwaited:
    """A reading waits for `what` on a channel, for longer than a person expects, until `until_ms` (epoch ms, UTC) at
    the latest. None: it does not wait any more."""

    channel: str
    what: str | None
    until_ms: int = 0


@dataclass(frozen=True)
class EventsLanded:
    """Events were committed to `raw_events`; one that was delivered twice is landed once."""

    channel: str
    events: int


@dataclass(frozen=True)
class RequestSent:
    """One API request, each try counted."""


@dataclass(frozen=True)
class SnapshotsWanted:
    """These entities will be read whole."""

    entities: tuple[str, ...]


@dataclass(frozen=True)
class SnapshotBegun:
    """The org prepares an entity's rows."""

    entity: str


@dataclass(frozen=True)
class PageStored:
    """A page of an entity's snapshot was committed. `rows_expected`: of the whole, once the org knows it."""

    entity: str
    rows_done: int
    rows_expected: int | None
    is_last: bool


@dataclass(frozen=True)
class WorkFound:
    """These entities have something to apply."""

    entities: tuple[str, ...]


@dataclass(frozen=True)
class BatchApplied:
    """An entity's tables moved: records changed by kind, how old the newest event of the batch was when it became
    visible (seconds; None without events), and how many entries of the reconciliation ledger were healed."""

    entity: str
    inserted: int
    updated: int
    deleted: int
    lag_seconds: float | None
    healed: int = 0


@dataclass(frozen=True)
class PageCompared:
    """Rows of an entity that an audit has read from the org and compared; `rows_expected` of the whole."""

    entity: str
    rows: int
    rows_expected: int


@dataclass(frozen=True)
class ComparisonsLeft:
    """So many records changed while they were compared, or are suspect: the tables are brought up to date, and they are
    compared again."""

    records: int


@dataclass(frozen=True)
class FieldHistoryRead:
    """Rows of an entity's field history that were read and folded back, of `rows_expected` in all (None: it is not
    known), and the versions that came of them."""

    entity: str
    rows: int
    rows_expected: int | None
    versions: int


@dataclass(frozen=True)
class TableSearched:
    """A table was looked through for records that are to be erased: so many rows of it named them; `erased`: they are
    gone."""

    table: str
    rows: int
    erased: bool


Fact = (
    EventsDelivered
    | StreamAwaited
    | EventsLanded
    | RequestSent
    | SnapshotsWanted
    | SnapshotBegun
    | PageStored
    | WorkFound
    | BatchApplied
    | PageCompared
    | ComparisonsLeft
    | FieldHistoryRead
    | TableSearched
)
Observer = Callable[[Fact], object]

_observers: tuple[Observer, ...] = ()
_changing = threading.Lock()


def notify(fact: Fact) -> None:
    """Report it to all observers."""
    for observer in _observers:
        observer(fact)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Call `observer` with each fact while entered, from any thread."""
    global _observers  # noqa: PLW0603 - there is one process
    with _changing:
        _observers = (*_observers, observer)
    try:
        yield
    finally:
        with _changing:
            kept = list(_observers)
            kept.remove(observer)
            _observers = tuple(kept)
