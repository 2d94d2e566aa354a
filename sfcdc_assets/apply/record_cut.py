"""Note the cut that a run reached: the tables of a channel's entities at one position between two transactions.

An entity that does not stand there lags. It is in the cut all the same, as of its own last batch, which also ends
between two transactions, and the cut says so: one entity that fails, or that nobody can read, stops no cut. One whose
tables are damaged is in it as it was in the cut before, and so is one that nothing feeds by the settings of the process
that notes the cut: another process may, and if none does, its tables stay as they are and can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.entities.entity_state import EntityState
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.consistent_cuts import (
    NOT_FED,
    Cut,
    Lagging,
    add_cut,
    latest_cut,
    newest_cuts,
    was_rebuilt_after,
)
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import all_side_by_side
from sfcdc_assets.runtime.times import epoch_ms, utc
from sfcdc_assets.settings.channel_kinds import is_polled

WAITED_MS = 300_000
"""How long a cut waits for an entity that the next run can bring along: from the first event on that no cut has."""

NOT_COPIED = "not copied yet"
OFF_CHANNEL = "off its channel"
SNAPSHOT_DUE = "waits for a snapshot"
NOT_APPLIED = "events are not applied"
READ_NOT_APPLIED = "a read of the org is not applied"
DAMAGED = "one of its tables is damaged"
AHEAD = "read from the org later than the stream is landed"


@dataclass(frozen=True)
class CutNoted:
    """`cut`: the cut that was added, if it is new. `rows_are_ahead`: there is none yet, or one in which an entity lags,
    because a table holds a row that was read from the org later than the stream is known to be landed; time alone mends
    it. `is_unproven`: `cut` is the channel's first, of tables that were not waited for. `before`: the channel's newest
    cut until then."""

    cut: Cut | None
    rows_are_ahead: bool = False
    is_unproven: bool = False
    before: Cut | None = None


def note_cut(
    warehouse: Warehouse,
    channels: Mapping[str, str],
    channel: str,
    position: int,
    complete_through_ms: int,
    failed: Collection[str] = (),
) -> CutNoted:
    """Add the cut at `position`.

    `channels`: entity -> channel, all that are known; `position`: the complete position the run applied up to; all that
    was committed before `complete_through_ms` is at or before it; `failed`: the entities that the run could not bring
    there.
    """
    mine = {entity: of for entity, of in channels.items() if of == channel}
    states = entity_states(warehouse, mine, clock.now_ms())
    return note_cut_of(warehouse, states, channel, position, complete_through_ms, failed)


def note_cut_of(
    warehouse: Warehouse,
    states: Sequence[EntityState],
    channel: str,
    position: int,
    complete_through_ms: int,
    failed: Collection[str] = (),
    *,
    waits_for_first: bool = True,
) -> CutNoted:
    """Note the cut as `note_cut` does, with the states of all entities of the channel at hand.

    An entity that the next run may bring to the position is waited for, for `WAITED_MS`, unless it lagged in the newest
    cut too. One that holds a row which was read from the org after `complete_through_ms` may be ahead of
    the others: it is waited for, and then in the cut as it was in the one before. It is not ahead if the newest cut has
    these very tables at this position: what was known of the stream then is known for ever.

    Where the channel has no cut yet, and not `waits_for_first`, such entities are in its first one as they are, and
    lag: each holds its own copy, and whether something changed between two copies the stream has not said.
    """
    now_ms, newest = clock.now_ms(), latest_cut(warehouse, channel)
    if newest is not None and newest.position > position:
        return CutNoted(None)
    why = {state.entity: _why(state, position, complete_through_ms) for state in states}
    for state in states:
        if why[state.entity] == AHEAD and _stands_in(warehouse, newest, state, position):
            why[state.entity] = ""
    lagged = {each.entity: each.reason for each in newest.in_trouble} if newest is not None else {}
    ahead = {entity for entity, reason in why.items() if reason == AHEAD}
    is_unproven = bool(ahead) and newest is None and not waits_for_first
    next_run = {state.entity for state in states if why[state.entity] and state.has_work} - ahead - set(failed)
    waited_for = {each for each in ahead if lagged.get(each) != AHEAD and not is_unproven} | (next_run - lagged.keys())
    events = RawEvents.open(warehouse)
    polled = is_polled(channel)
    as_of = polled_until(warehouse, states, newest) if polled else {}
    if waited_for and now_ms - _waits_since(newest, events, channel, now_ms) < WAITED_MS:
        return CutNoted(None, rows_are_ahead=bool(ahead))
    now = utc(now_ms)

    def shown(state: EntityState) -> datetime | None:
        return as_of.get(state.entity) if polled else events.last_commit_timestamp(channel, state.applied or 0)

    parts = _Parts(as_of=as_of)
    _add_states(parts, states, why, newest, shown, now, is_unproven=is_unproven)
    if not any(path.startswith(f"{current_state.LAYER}/") for path in parts.tables):
        return CutNoted(None)
    if newest is not None:
        _add_left_out(parts, warehouse, newest, why.keys(), position, now)
    committed = max(parts.as_of.values(), default=None) if polled else events.last_commit_timestamp(channel, position)
    cut = Cut(
        channel,
        position,
        committed,
        dict(sorted(parts.tables.items())),
        lagging=tuple(sorted(parts.lagging, key=lambda each: each.entity)),
        as_of=parts.as_of,
    )
    if newest is not None and all(why.values()) and (newest.tables, newest.lagging) == (cut.tables, cut.lagging):
        return CutNoted(None, rows_are_ahead=bool(ahead))
    return CutNoted(cut if add_cut(warehouse, cut, now) else None, bool(ahead), is_unproven, newest)


@dataclass(frozen=True)
class _Parts:
    """What a cut is made of, as in `Cut`."""

    tables: dict[str, int] = field(default_factory=dict)
    lagging: list[Lagging] = field(default_factory=list)
    as_of: dict[str, datetime] = field(default_factory=dict)


def _add_states(
    parts: _Parts,
    states: Sequence[EntityState],
    why: Mapping[str, str],
    newest: Cut | None,
    shown: Callable[[EntityState], datetime | None],
    now: datetime,
    *,
    is_unproven: bool,
) -> None:
    """Add the tables of these entities, and how those of them lag that do not stand at the cut (`why`). `shown`: as of
    when an entity's tables are as they are now."""
    for state in states:
        reason = why[state.entity]
        if reason == DAMAGED or (reason == AHEAD and not is_unproven):
            parts.tables.update(newest.tables_of(state.entity) if newest is not None else {})
        else:
            parts.tables.update(state.versions)
        if reason == AHEAD and is_unproven:
            parts.lagging.append(Lagging(state.entity, state.applied, None, now, reason))
        elif reason:
            parts.lagging.append(_lagging(state, reason, newest, shown(state), now))


def _add_left_out(
    parts: _Parts, warehouse: Warehouse, newest: Cut, fed: Collection[str], position: int, now: datetime
) -> None:
    """Add what the newest cut has of entities that are not `fed` by who notes the next one: they are in that as they
    were, and lag where the position has moved on. Not those that another channel's cut has by now, nor those whose
    tables somebody has removed; of one that was rebuilt the new tables."""
    entities = sorted({path.partition("/")[2] for path in newest.tables} - set(fed))
    names = {entity: current_state.name_of(entity) for entity in entities}
    others = [cut for cut in newest_cuts(warehouse) if cut.channel != newest.channel] if names else []
    elsewhere = {name: max((cut.tables.get(name, -1) for cut in others), default=-1) for name in names.values()}
    left = [entity for entity, name in names.items() if elsewhere[name] < newest.tables.get(name, 0)]
    rebuilt = all_side_by_side(
        lambda entity: was_rebuilt_after(warehouse, newest, names[entity]), left, warehouse.looks_at_once
    )
    for entity, was_rebuilt in zip(left, rebuilt, strict=True):
        tables, before = newest.tables_of(entity), newest.lag_of(entity)
        at = before.position if before is not None else newest.position
        if was_rebuilt:
            (state,) = entity_states(warehouse, {entity: newest.channel}, clock.now_ms())
            if names[entity] not in state.versions:
                continue
            tables, at = dict(state.versions), state.applied
        parts.tables.update(tables)
        if before is not None or was_rebuilt or position > newest.position:
            since = before.since if before is not None else now
            parts.lagging.append(Lagging(entity, at, newest.time_of(entity), since, NOT_FED))
        elif entity in newest.as_of:
            parts.as_of[entity] = newest.as_of[entity]


def note_history(warehouse: Warehouse, entity: str) -> bool:
    """Note the newest cut that has the entity again, with its `history` as it is now: rows were added before what it
    had. Returns whether it was; not where the entity's rows have moved on since, of which the next run notes a cut."""
    state, past = Table.open(warehouse, current_state.name_of(entity)), Table.open(warehouse, history.name_of(entity))
    if state is None or past is None:
        return False
    for newest in newest_cuts(warehouse):
        if newest.tables.get(state.name) == state.version and newest.lag_of(entity) is None:
            now = clock.now()
            return add_cut(warehouse, replace(newest, tables={**newest.tables, past.name: past.version}), now)
    return False


def _why(state: EntityState, position: int, complete_through_ms: int) -> str:
    """Return why an entity does not stand at the position; empty where it does."""
    if state.damaged is not None:
        return DAMAGED
    if not state.snapshot_complete:
        return NOT_COPIED
    if state.off_channel:
        return OFF_CHANNEL
    if state.entity_suspect is not None or state.channel_changed:
        return SNAPSHOT_DUE
    if state.pending_reads:
        return READ_NOT_APPLIED
    if state.applied is None or state.has_events_up_to(position):
        return NOT_APPLIED
    return AHEAD if state.applied > position or state.read_at > complete_through_ms else ""


def _stands_in(warehouse: Warehouse, cut: Cut | None, state: EntityState, position: int) -> bool:
    """Return whether the cut is at the position, and the entity's tables as they are now stand in it there."""
    if cut is None or cut.position != position or cut.lag_of(state.entity) is not None:
        return False
    tables = cut.tables_of(state.entity)
    return tables == dict(state.versions) and not any(was_rebuilt_after(warehouse, cut, path) for path in tables)


def _waits_since(newest: Cut | None, events: RawEvents, channel: str, now_ms: int) -> int:
    """Return when the first event landed that the newest cut does not have (epoch ms)."""
    first = events.landed_after(channel, newest.position if newest is not None else 0)
    return epoch_ms(first) if first is not None else now_ms


def _lagging(state: EntityState, reason: str, newest: Cut | None, as_of: datetime | None, now: datetime) -> Lagging:
    """Return how an entity lags. `as_of`: that of its tables as they are now."""
    before = newest.lag_of(state.entity) if newest is not None else None
    since = before.since if before is not None else now
    if reason in (AHEAD, DAMAGED):
        if newest is not None and before is None and newest.tables_of(state.entity):
            return Lagging(state.entity, newest.position, newest.time_of(state.entity), since, reason)
        position, then = (before.position, before.as_of) if before is not None else (None, None)
        return Lagging(state.entity, position, then, since, reason)
    if before is not None and (state.applied is None or state.applied == before.position):
        return Lagging(state.entity, state.applied, before.as_of, since, reason)
    return Lagging(state.entity, state.applied, as_of if state.applied is not None else None, since, reason)


_NOT_NOTED = PollNote()


def polled_until(warehouse: Warehouse, states: Sequence[EntityState], newest: Cut | None) -> dict[str, datetime]:
    """Return, of those that say so, up to when (UTC, by the org's clock) everything that the org had committed is in
    the tables as `states` have them: each is asked at a time of its own, and what no row of `raw_events` shows, the
    notes of its polls do.

    A poll whose rows are not in them yet does not count: then it is the time of the cut before (`newest`), or of the
    copy.
    """
    notes = read_poll_notes(warehouse)
    found = dict(newest.as_of) if newest is not None else {}
    found = {state.entity: found[state.entity] for state in states if state.entity in found}
    for state in states:
        note = notes.get(state.entity, _NOT_NOTED)
        times = [state.copied_at] if state.snapshot_applied >= state.snapshot_complete else []
        times += [note.seen_until_ms] if note.read_back <= state.read_back_applied else []
        shown = max((each for each in times if each), default=None)
        if shown is not None:
            moment = utc(shown)
            found[state.entity] = max(moment, found.get(state.entity, moment))
    return found
