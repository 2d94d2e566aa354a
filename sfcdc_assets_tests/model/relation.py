"""Which commits the model allows after which: what is durable, and the next commit of any process.

The model's states and the program's tables are both followed with this. A walk of the model takes no step that is not
allowed here (`model_trace`), and neither may the program (`table_trace`). What processes have in memory is not asked: a
commit is right by what is durable before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class NotAllowed(AssertionError):
    """A commit that the model does not have."""

    def __init__(self, guarantee: str, commit: object, why: str) -> None:
        self.guarantee = guarantee
        super().__init__(f"{guarantee}: {why}; {commit}")


class Event(NamedTuple):
    """One landed event. `mark` tells it from all others with its replay id; another one with its mark is its second
    copy, unless it is 0."""

    replay_id: object
    transaction: object
    entity: str
    mark: object = 0


@dataclass(frozen=True)
class Landed:
    """A commit to `raw_events`. `rows`: the events by position; of those that nobody can read there is none. `resume`:
    the replay id after which the stream is resumed. `is_break`: the order is broken here. `is_from_latest`: the stream
    was begun at LATEST, so that nothing before its first event has a replay id, after which it could be resumed."""

    channel: str
    position: int
    complete: int
    resume: object = None
    open_from: int = 0
    rows: Mapping[int, Event] = field(default_factory=dict)
    is_break: bool = False
    is_from_latest: bool = False


@dataclass(frozen=True)
class Suspected:
    """Entries of an entity's reconciliation ledger. `of_entity`: positions of those about the entity itself."""

    entity: str
    channel: str
    of_entity: tuple[int, ...]


@dataclass(frozen=True)
class ReadBegun:
    """A copy has its watermark; it is read after this."""

    entity: str
    channel: str
    number: int
    watermark: int


@dataclass(frozen=True)
class ReadDone:
    """A copy is whole, or records were read back: it counts."""

    entity: str
    channel: str
    number: int
    watermark: int | None
    """None where the log alone is left of it; then it is believed to be where the first batch with it stands."""
    whole: bool


@dataclass(frozen=True)
class Appended:
    """A commit to `history`."""

    entity: str
    batch: int
    version: int
    is_rebuilt: bool = False


@dataclass(frozen=True)
class Committed:
    """A commit to `current_state`, with the entity's checkpoint after it. `built`: when the tables were built."""

    entity: str
    channel: str
    version: int
    position: int
    batch: int
    snapshot: int = 0
    read_back: int = 0
    back_in: int = 0
    back_to: int = 0
    built: int = 0


@dataclass(frozen=True)
class CutNoted:
    """A commit to `consistent_cuts`. `versions`: entity -> version of `current_state` and of `history`."""

    channel: str
    position: int
    versions: Mapping[str, tuple[int, int]]
    lagging: frozenset[str]


@dataclass(frozen=True)
class CleanedUp:
    """Commits to an entity's `history` (`of_history`) or `current_state` of which no log is left: which batch was the
    last there is not known."""

    entity: str
    of_history: bool


Commit = Landed | Suspected | ReadBegun | ReadDone | Appended | Committed | CutNoted | CleanedUp


@dataclass
class _Channel:
    position: int = 0
    complete: int = 0
    rows: dict[int, Event] = field(default_factory=dict)
    breaks: set[int] = field(default_factory=set)
    taken: set[tuple[object, object]] = field(default_factory=set)
    """Replay ids and marks of what is landed."""
    marks: set[object] = field(default_factory=set)
    copies: set[int] = field(default_factory=set)
    """Positions of second copies: they are none of their transaction's, and may lie within another one."""

    def goes_on_after(self, position: int, entity: str | None = None) -> bool:
        """Return whether a transaction, of which `entity` has events on both sides, is cut through at a position."""
        mine = (at for at in self.rows if at not in self.copies and entity in (None, self.rows[at].entity))
        sides: tuple[list[int], list[int]] = ([], [])
        for at in mine:
            sides[at > position].append(at)
        before, after = self.rows.get(max(sides[0], default=-1)), self.rows.get(min(sides[1], default=-1))
        return before is not None and after is not None and before.transaction == after.transaction

    def ended(self) -> object:
        """Return the last transaction that counts as complete, None after a break."""
        last = max((at for at in self.rows if at <= self.complete and at not in self.copies), default=0)
        return self.rows[last].transaction if last and not any(at > last for at in self.breaks) else None


@dataclass
class _Entity:
    channel: str = ""
    now: Committed | None = None
    states: dict[int, Committed] = field(default_factory=dict)
    appended: dict[int, int] = field(default_factory=dict)
    """Version of `history` -> the last batch in it."""
    last_appended: int = 0
    is_known: bool = True
    """Whether `now` is of the last commit; `is_history_known`: whether `last_appended` is."""
    is_history_known: bool = True
    suspect_at: set[int] = field(default_factory=set)
    tips: dict[int, int] = field(default_factory=dict)
    """Number of a copy -> where its channel was when it was begun."""
    watermarks: dict[int, int | None] = field(default_factory=dict)
    read_backs: int = 0


class Followed:
    """What is durable, followed commit by commit. `counts` says how many there were of each kind."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = defaultdict(_Channel)
        self._entities: dict[str, _Entity] = defaultdict(_Entity)
        self.counts: dict[str, int] = defaultdict(int)

    def take_all(self, commits: Iterable[Commit]) -> None:
        """Follow commits in their order. Raises `NotAllowed`."""
        for commit in commits:
            self.take(commit)

    def take(self, commit: Commit) -> None:
        """Follow one commit. Raises `NotAllowed`."""
        self.counts[type(commit).__name__] += 1
        match commit:
            case Landed():
                self._landed(commit, self._channels[commit.channel])
            case Suspected():
                self._entities[commit.entity].suspect_at |= set(commit.of_entity)
            case ReadBegun():
                self._begun(commit, self._entities[commit.entity])
            case ReadDone():
                self._done(commit, self._entities[commit.entity])
            case Appended():
                self._appended(commit, self._entities[commit.entity])
            case Committed():
                self._committed(commit, self._entities[commit.entity])
            case CutNoted():
                self._cut(commit)
            case CleanedUp():
                self._cleaned_up(commit, self._entities[commit.entity])

    def _landed(self, commit: Landed, channel: _Channel) -> None:
        before, after = channel.position, commit.position
        _require(after >= before, "our own order", commit, f"the channel was at {before}")
        _require(all(before < at <= after for at in commit.rows), "once", commit, f"positions up to {before} are taken")
        if commit.is_break:
            for entity, of in self._entities.items():
                if of.channel == commit.channel and after not in of.suspect_at:
                    raise NotAllowed("a lost checkpoint is a planned event", commit, f"{entity} is not suspect at it")
            channel.breaks.add(after)
        new = [(each.replay_id, each.mark) for each in commit.rows.values()]
        again = [each for each in new if each in channel.taken]
        _require(not again and len(set(new)) == len(new), "once", commit, f"landed before: {again[:3]}")
        channel.taken.update(new)
        for at, event in sorted(commit.rows.items()):
            if event.mark and event.mark in channel.marks:
                channel.copies.add(at)
            channel.marks.add(event.mark)
        ended = channel.ended()
        goes_on = [at for at in commit.rows if at not in channel.copies and commit.rows[at].transaction == ended]
        _require(not goes_on, "whole transactions", commit, f"a transaction of {goes_on[:3]} counted as complete")
        channel.rows |= commit.rows
        channel.position, complete = after, channel.complete
        _require(complete <= commit.complete <= after, "whole transactions", commit, f"{complete} was complete")
        if commit.complete not in (complete, after):
            _require(
                not channel.goes_on_after(commit.complete),
                "whole transactions",
                commit,
                "a transaction goes on after it",
            )
        channel.complete = commit.complete
        if commit.open_from:
            group = [channel.rows[at].replay_id for at in range(commit.open_from, after + 1) if at in channel.rows]
            _require(len(set(group)) <= 1, "landed before moved", commit, "several replay ids are open")
            begun_after = max((at for at in channel.breaks if at < commit.open_from), default=0)
            is_first = not any(begun_after < at < commit.open_from for at in channel.rows)
            if group and not (commit.is_from_latest and is_first):
                _require(commit.resume != group[0], "landed before moved", commit, "the open replay id is not resumed")

    def _begun(self, commit: ReadBegun, entity: _Entity) -> None:
        tip = self._channels[commit.channel].position
        _require(commit.watermark <= tip, "reads are pinned to the stream", commit, f"the channel is at {tip}")
        entity.channel = commit.channel
        entity.tips[commit.number] = tip

    def _done(self, commit: ReadDone, entity: _Entity) -> None:
        tip = self._channels[commit.channel].position
        entity.channel = commit.channel
        if commit.whole:
            tip = entity.tips.get(commit.number, tip)
            entity.watermarks[commit.number] = commit.watermark
        else:
            _require(commit.number == entity.read_backs + 1, "once", commit, f"the last was {entity.read_backs}")
            entity.read_backs = commit.number
        _require(
            (commit.watermark or 0) <= tip,
            "reads are pinned to the stream",
            commit,
            f"it was begun when the channel was at {tip}",
        )

    def _appended(self, commit: Appended, entity: _Entity) -> None:
        batch = entity.now.batch if entity.now else 0
        if entity.is_known and not commit.is_rebuilt:
            _require(commit.batch in (0, batch, batch + 1), "history is whole", commit, f"the last batch is {batch}")
        entity.last_appended = entity.appended[commit.version] = commit.batch
        entity.is_history_known = True

    def _committed(self, commit: Committed, entity: _Entity) -> None:
        before, was_known, channel = entity.now, entity.is_known, self._channels[commit.channel]
        entity.now = entity.states[commit.version] = commit
        entity.is_known = True
        if not commit.batch:
            return  # the table was made
        if before is not None and commit.batch == before.batch and commit.built == before.built:
            same = (before.position, before.snapshot, before.read_back, before.back_in)
            moved = (commit.position, commit.snapshot, commit.read_back, commit.back_in)
            _require(same == moved or commit.channel != before.channel, "once", commit, f"no batch, but not {same}")
            return
        # After what was cleaned up, it may be of no batch, while the next one has been appended already.
        expected = {entity.last_appended} if was_known else {entity.last_appended, entity.last_appended - 1}
        has_it = commit.batch in expected or not entity.is_history_known
        _require(has_it, "history is whole", commit, f"it has batch {entity.last_appended}")
        whole = max(entity.watermarks, default=0)
        _require(
            commit.snapshot <= whole, "reads are pinned to the stream", commit, f"copy {whole} is the last whole one"
        )
        unread = [number for number, at in entity.watermarks.items() if at is None and number <= commit.snapshot]
        entity.watermarks |= dict.fromkeys(unread, commit.position)
        known = entity.read_backs
        _require(commit.read_back <= known, "reads are pinned to the stream", commit, f"{known} were read back")
        watermark = max((at or 0 for number, at in entity.watermarks.items() if number <= commit.snapshot), default=0)
        up_to = max(channel.complete, watermark, before.position if before else 0)
        _require(
            commit.position <= up_to, "whole transactions", commit, f"the channel is complete up to {channel.complete}"
        )
        stops = {watermark, channel.complete, *(at - 1 for at in (*entity.suspect_at, *channel.breaks))}
        if commit.position not in stops and (before is None or commit.position != before.position):
            # Of very many events a batch takes the first: up to the end of a transaction of the entity's own.
            is_cut_through = channel.goes_on_after(commit.position, commit.entity)
            _require(not is_cut_through, "whole transactions", commit, "a transaction goes on after it")
        if before is None or commit.built != before.built or commit.channel != before.channel:
            return
        _require(commit.batch == before.batch + 1, "once", commit, f"the last batch is {before.batch}")
        _require(commit.position >= before.position, "our own order", commit, f"it was at {before.position}")
        new = [at for number, at in entity.watermarks.items() if before.snapshot < number <= commit.snapshot]
        _require(commit.snapshot >= before.snapshot, "once", commit, f"copy {before.snapshot} was in it")
        goes_back = commit.back_in != before.back_in
        must = bool(new) and (new[0] or 0) < before.position
        _require(
            goes_back == must or bool(unread),
            "reads are pinned to the stream",
            commit,
            f"watermarks {new} after {before.position}",
        )

    def _cleaned_up(self, commit: CleanedUp, entity: _Entity) -> None:
        if commit.of_history:
            entity.is_history_known = False
        else:
            entity.now, entity.is_known = None, False

    def _cut(self, commit: CutNoted) -> None:
        channel = self._channels[commit.channel]
        complete = channel.complete
        _require(commit.position <= complete, "whole transactions", commit, f"the channel is complete up to {complete}")
        for entity, (version, of_history) in commit.versions.items():
            of = self._entities[entity]
            state = of.states.get(version)
            if state is None:
                continue  # of before the trace began
            has = of.appended.get(of_history)
            if has is not None:
                _require(
                    has >= state.batch, "history is whole", commit, f"{entity}: batch {state.batch}, history {has}"
                )
            if entity in commit.lagging:
                continue
            at = state.position
            _require(at <= commit.position, "whole transactions", commit, f"{entity} stands at {at}")
            between = (channel.rows.get(p) for p in range(at + 1, commit.position + 1))
            left = [event for event in between if event and event.entity == entity]
            _require(not left, "whole transactions", commit, f"{entity} has not applied {left[:3]}")


def _require(holds: object, guarantee: str, commit: Commit, why: str) -> None:
    if not holds:
        raise NotAllowed(guarantee, commit, why)
