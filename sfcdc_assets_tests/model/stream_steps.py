"""Steps of the org and its stream, and of the processes that land it (`landing`, `streams`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfcdc_assets_tests.model.rules import Rule
from sfcdc_assets_tests.model.state import (
    BREAK,
    Bounds,
    Channel,
    Event,
    Lander,
    World,
    events_of,
    is_cut_through,
)

Steps = Iterator[tuple[str, World]]
IDLE, OPEN, LOOKED, MOVED, LOSING = 0, 1, 2, 3, 4
"""Phases of a lander. It has looked where the channel stands, and is about to commit; it has moved the resume point (a
mutant); it makes entities suspect, one after another, and then breaks the order."""
ANSWERED, SETTLED = 1, 2


def org_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """The org commits, publishes one event after another, and shows by REST what it has committed some time ago."""
    events = len(events_of(world.log))
    if len(world.log) < bounds.transactions:
        for kind in bounds.kinds:
            yield f"the org commits {kind}", world._replace(log=(*world.log, kind))
    if world.published < events:
        yield "an event is published", world._replace(published=world.published + 1)
    if bounds.reads and world.visible < len(world.log):
        yield "REST shows a transaction", world._replace(visible=world.visible + 1)
    if world.losses and world.channel.resume and not world.channel.refused:
        # Events are kept for three days: what is gone from the stream, REST has shown for long.
        visible = world.visible if bounds.reads else len(world.log)
        shown = sum(e.transaction < visible for e in events_of(world.log)[: world.published])
        for kept_from in sorted({world.earliest, max(world.earliest, shown)}):
            yield (
                f"the org moves, and keeps events from {kept_from} on",
                world._replace(
                    losses=world.losses - 1,
                    earliest=kept_from,
                    channel=world.channel._replace(refused=1),
                    landers=(Lander(),) * len(world.landers),
                ),
            )


def landed(channel: Channel, events: Sequence[Event], new: Sequence[int], quiet: int, missing: Rule | None) -> Channel:
    """Return the channel with these events on top, and what is known of their ends."""
    rows = (*channel.rows, *new)
    last, complete = len(rows), channel.complete
    for position in range(len(channel.rows) + 1, last + 1):
        before = rows[position - 2] if position > 1 else BREAK
        if before == BREAK or events[before].transaction != events[rows[position - 1]].transaction:
            complete = max(complete, position - 1)
    if quiet == SETTLED:
        complete = last
    if quiet or not rows or rows[-1] == BREAK:
        resume, open_from = (rows[-1] + 1 if rows and rows[-1] != BREAK else channel.resume), 0
    else:
        open_from, group = last, events[rows[-1]].group
        while open_from > 1 and rows[open_from - 2] != BREAK and events[rows[open_from - 2]].group == group:
            open_from -= 1
        # After a lost checkpoint the open group's first event may have been landed before the break.
        resume = min(e for e in range(len(events)) if events[e].group == group)
    if missing == Rule.BEFORE_OPEN_GROUP and rows and rows[-1] != BREAK:
        # The service resumes strictly after an id.
        resume = max(e for e in range(len(events)) if events[e].group == events[rows[-1]].group) + 1
        open_from = 0
    return channel._replace(rows=rows, complete=complete, resume=max(resume, channel.resume), open_from=open_from)


def unseen(channel: Channel, lander: Lander, missing: Rule | None) -> tuple[int, ...]:
    """Return those of the delivered events that are to be landed. After a lost checkpoint all come again: what was
    landed before it is known by the rows."""
    landed_before = channel.rows if BREAK in channel.rows and missing != Rule.REDELIVERED_ARE_KNOWN else ()
    return tuple(
        each for each in range(lander.start, lander.end) if not lander.known >> each & 1 and each not in landed_before
    )


def stream_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """Where the slice is not about landing: each event is landed in one step, and its end found in another."""
    channel, events = world.channel, events_of(world.log)
    if len(channel.rows) < world.published:
        after = landed(channel, events, (len(channel.rows),), 0, missing)
        yield "an event is landed", world._replace(channel=after)
    elif channel.rows and not is_cut_through(world.log, world.published, by_group=False):
        through = events[world.published - 1].transaction + 1
        if through > channel.through:
            after = landed(channel, events, (), SETTLED, missing)._replace(through=through)
            yield "the stream settles", world._replace(channel=after)


def lander_steps(world: World, bounds: Bounds, missing: Rule | None) -> Steps:
    """What each lander may do next."""
    for number, lander in enumerate(world.landers):
        if number and lander == world.landers[number - 1]:
            continue
        if lander.phase == IDLE:
            yield from _begun(world, number, missing)
        elif lander.phase == OPEN:
            yield from _reading(world, number, lander, missing)
        elif lander.phase == LOOKED:
            yield from _committing(world, number, lander, missing)
        elif lander.phase == MOVED:
            rows = (*world.channel.rows, *range(lander.start, lander.end))
            yield (
                "a lander lands what it has moved past",
                _with(world, number, Lander(), world.channel._replace(rows=rows, complete=len(rows))),
            )
        else:
            yield from _losing(world, number, lander, missing)
        if lander.phase != IDLE and world.crashes:
            yield "a lander dies", _with(world, number, Lander())._replace(crashes=world.crashes - 1)


def _with(world: World, number: int, lander: Lander, channel: Channel | None = None) -> World:
    """The world with another lander, and, if it has committed, another channel; landers in an order of their own."""
    others = [each for place, each in enumerate(world.landers) if place != number]
    if channel is None:
        return world._replace(landers=tuple(sorted((*others, lander))))
    others = [each._replace(fresh=0) if each.fresh else each for each in others]
    return world._replace(landers=tuple(sorted((*others, lander))), channel=channel)


def _begun(world: World, number: int, missing: Rule | None) -> Steps:
    channel = world.channel
    if channel.refused:
        if missing == Rule.NO_JUMP_TO_LATEST:
            latest = channel._replace(refused=0, resume=world.published, open_from=0)
            yield "a lander jumps to LATEST", _with(world, number, Lander(), latest)
        else:
            phase = LOSING + 2 if missing == Rule.SUSPECT_BEFORE_BREAK else LOSING
            yield (
                "a lander hears that the checkpoint is lost",
                _with(world, number, Lander(phase, len(channel.rows) + 1, fresh=1)),
            )
        return
    has_news = channel.resume < world.published or channel.open_from or channel.complete < len(channel.rows)
    if has_news:
        start = max(channel.resume, world.earliest)
        open_ = channel.rows[channel.open_from - 1 :] if channel.open_from else ()
        known = 0 if missing == Rule.OPEN_GROUP_IS_KNOWN else sum(1 << each for each in open_)
        lander = Lander(OPEN, len(channel.rows), start, start, known=known)
        yield "a lander subscribes", _with(world, number, lander)


def _reading(world: World, number: int, lander: Lander, missing: Rule | None) -> Steps:
    channel, log = world.channel, world.log
    if channel.refused:
        return
    if lander.end < world.published:
        yield "a lander takes an event", _with(world, number, lander._replace(end=lander.end + 1, quiet=0, through=0))
    else:
        open_ = lander.start < lander.end or channel.open_from
        if open_ and not lander.quiet and not is_cut_through(log, lander.end, by_group=True):
            yield "a lander hears that nothing follows", _with(world, number, lander._replace(quiet=ANSWERED))
        through = events_of(log)[lander.end - 1].transaction + 1 if lander.end else 0
        waits = lander.start < lander.end or channel.complete < len(channel.rows) or through > channel.through
        cut_through = is_cut_through(log, lander.end, by_group=False) and missing != Rule.SILENCE_PROVES_NOTHING
        if lander.quiet < SETTLED and waits and not cut_through:
            settled = lander._replace(quiet=SETTLED, through=through)
            yield "a lander hears nothing for the settling time", _with(world, number, settled)
    if lander.base != len(channel.rows):
        yield "a lander finds the channel moved", _with(world, number, Lander())
        return
    new = unseen(channel, lander, missing)
    ends = lander.quiet == SETTLED and (channel.complete < len(channel.rows) or lander.through > channel.through)
    if new or ends or (lander.quiet and channel.open_from):
        yield "a lander looks where the channel is", _with(world, number, lander._replace(phase=LOOKED, fresh=1))


def _committing(world: World, number: int, lander: Lander, missing: Rule | None) -> Steps:
    channel = world.channel
    if not lander.fresh and missing != Rule.LANDING_IS_REFUSED:
        yield "a lander's commit is refused", _with(world, number, Lander())
        return
    new = unseen(channel, lander, missing)
    if missing == Rule.ONE_COMMIT and new:
        moved = channel._replace(resume=max(channel.resume, lander.end), open_from=0)
        mover = lander._replace(phase=MOVED, start=new[0], end=new[-1] + 1)
        yield "a lander moves the resume point", _with(world, number, mover, moved)
        return
    if not lander.fresh:
        new = tuple(range(lander.start, lander.end))
    after = landed(channel, events_of(world.log), new, lander.quiet, missing)
    after = after._replace(through=max(channel.through, lander.through))
    again = Lander(OPEN, len(after.rows), lander.end, lander.end)
    yield "a lander lands", _with(world, number, again, after)


def _losing(world: World, number: int, lander: Lander, missing: Rule | None) -> Steps:
    """Each entity is made suspect, then the order is broken; a mutant does it the other way about."""
    done, channel = lander.phase - LOSING, world.channel
    if done == 2:
        if not lander.fresh:
            yield "a lander's break is refused", _with(world, number, Lander())
            return
        rows = (*channel.rows, BREAK)
        broken = Channel(rows, len(rows), 0, 0, channel.through, 0)
        after = Lander() if missing != Rule.SUSPECT_BEFORE_BREAK else lander._replace(phase=LOSING + 3)
        yield "a lander breaks the order", _with(world, number, after, broken)
        return
    entity = done % 3
    found, reader = world.entities[entity], world.reader
    rests = found.tables.batch or found.reads or (reader.phase and reader.whole and reader.entity == entity)
    marked = found._replace(entity=max(found.entity, lander.base)) if rests else found
    entities = (marked, world.entities[1]) if entity == 0 else (world.entities[0], marked)
    after = lander._replace(phase=lander.phase + 1) if done in (0, 1, 3) else Lander()
    yield f"a lander makes entity {entity} suspect", _with(world, number, after)._replace(entities=entities)
