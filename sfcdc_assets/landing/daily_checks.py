"""What of polled objects is looked at about once a day, because no stamp tells of it: records that were deleted for
good, by counting, and changes that leave the stamp as it is, by comparing.

Objects have their times spread over the day, so that a day's requests do not come together. One that fails is tried
again after pauses that double, and holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from zlib import crc32

from sfcdc_assets.entities.entity_facts import EntityFacts, readable_facts
from sfcdc_assets.lake.store.poll_notes import PollNote
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.hard_deletes import HardDeletes
from sfcdc_assets.landing.object_comparison import ObjectComparison, takes_a_job
from sfcdc_assets.landing.retry_pause import OF_EVERY_OBJECT
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.org_connection.snapshot_budget import SnapshotBudget
from sfcdc_assets.polls.due import interval_after
from sfcdc_assets.polls.known_objects import ALL_FIELDS
from sfcdc_assets.polls.readability import Readability, readability
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.runtime.times import epoch_ms
from sfcdc_assets.schema_evolution.table_columns import SchemaMissing, newest_describe
from sfcdc_assets.settings.channel_kinds import POLLED

log = logging.getLogger(__name__)

AGAIN_MS = 900_000
"""After how long one that failed is tried again, the first time; each further pause is twice as long."""
REQUESTS = 10
"""Of one reading, for counting, at most: a tick does not take long, and the next one goes on."""


class ComparisonWaits(SfcdcError):
    """An object was to be compared, and the org's allowances had no room for it."""

    def __init__(self, entity: str, why: str) -> None:
        super().__init__(f"{entity} is not compared now, because {why.rstrip('.')}. It is tried again.")


def readability_of(warehouse: Warehouse, entity: str, note: PollNote | None) -> Readability:
    """Return how a copied object is read, by its newest describe and what polls of it have noted. Raises `NotPollable`
    and `SchemaMissing`."""
    described = newest_describe(Schemas(warehouse).of_entity(entity))
    if described is None:
        raise SchemaMissing(entity)
    return readability(described).without(note.refused_stamp if note is not None else None)


class DailyChecks:
    """Of one warehouse's polled objects, some at each reading."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection) -> None:
        self._warehouse, self._org = warehouse, org
        self._hard_deletes = HardDeletes(warehouse, org)
        self._readable: dict[str, Readability] = {}
        self._jobs = SnapshotBudget(org, org.poll.reserve_percent)
        self._comparison: ObjectComparison | None = None
        """The one that is under way: it goes on with the next reading where this one has no time left."""

    def readability(self, entity: str, note: PollNote | None) -> Readability:
        """Return `readability_of` it; what describe says is kept."""
        found = self._readable.get(entity)
        if found is None:
            found = self._readable[entity] = readability_of(self._warehouse, entity, None)
        return found.without(note.refused_stamp if note is not None else None)

    def forget(self, entity: str) -> None:
        """Look at the object's describe again."""
        self._readable.pop(entity, None)

    def look(
        self,
        entities: Sequence[str],
        notes: dict[str, PollNote],
        now_ms: int,
        requests: int,
        may_go_on: Callable[[], bool],
    ) -> dict[str, PollNote]:
        """Look at the objects whose time has come, as far as a reading has `requests` to count and one comparison
        `may_go_on`; returns the new notes. Raises what concerns all objects."""
        self._hard_deletes.forget_others(entities)
        if self._comparison is not None and self._comparison.entity not in entities:
            self._comparison = None
        done = {each: self._begun(each, notes.get(each), now_ms) for each in entities if _is_new(notes.get(each))}
        known = {each: _by_now(note, now_ms) for each, note in {**notes, **done}.items()}
        due = sorted(
            (known[each].swept_at_ms, each)
            for each in entities
            if known[each].error is None and now_ms >= self._due_ms(each, known[each])
        )
        facts = readable_facts(self._warehouse, {each: POLLED for _, each in due}) if due else {}
        position, left, has_compared = RawEvents.open(self._warehouse).last_position(POLLED), requests, False
        for _, entity in due if left > 0 else ():
            if not _is_in_the_table(facts.get(entity)):
                continue
            compares = now_ms >= self._compared_due_ms(entity, known[entity])
            if compares and has_compared:
                continue
            if compares and self._comparison is not None and self._comparison.entity != entity:
                continue
            outcome: tuple[PollNote | None, int] | PollNote | Exception | None
            if compares:
                outcome = outcome_of(self._compare, entity, known[entity], position, now_ms, may_go_on)
            else:
                outcome = outcome_of(self._count, entity, known[entity], position, left, now_ms)
            if isinstance(outcome, Exception):
                done[entity] = _failed(entity, known[entity], outcome, now_ms)
                continue
            has_compared |= compares
            note, left = outcome if isinstance(outcome, tuple) else (outcome, left)
            if note is not None:
                done[entity] = note
            if left <= 0:
                break
        return done

    def _begun(self, entity: str, note: PollNote | None, now_ms: int) -> PollNote:
        """Return the note of an object that was copied a short time ago, which is as good as a look at it."""
        begun, taken = note or PollNote(), Snapshots.open(self._warehouse, entity)
        asked_at = taken.asked_at() if taken is not None else None
        seen = begun.seen_until_ms or (epoch_ms(asked_at) if asked_at is not None else 0)
        share = crc32(entity.encode()) / 2**32
        reread_ms = self._org.poll.reread_seconds_of(entity) * 1000
        return replace(
            begun,
            seen_until_ms=seen,
            swept_at_ms=now_ms - int(share * self._sweep_ms(entity)),
            compared_at_ms=now_ms - int(share * reread_ms),
        )

    def _due_ms(self, entity: str, note: PollNote) -> int:
        if note.sweep_failures:
            return note.swept_at_ms + min(self._sweep_ms(entity), interval_after(AGAIN_MS, note.sweep_failures - 1))
        how = outcome_of(self.readability, entity, note)
        if isinstance(how, Readability) and how.stamp is None:
            return self._compared_due_ms(entity, note)
        return min(note.swept_at_ms + self._sweep_ms(entity), self._compared_due_ms(entity, note))

    def _sweep_ms(self, entity: str) -> int:
        return int(self._org.poll.count_seconds_of(entity) * 1000)

    def _compared_due_ms(self, entity: str, note: PollNote) -> int:
        """Return from when on (epoch ms) it is compared; never, where its stamp tells all."""
        how = outcome_of(self.readability, entity, note)
        if isinstance(how, Readability) and how.is_compared:
            return note.compared_at_ms + int(self._org.poll.reread_seconds_of(entity) * 1000)
        return _NEVER

    def _count(self, entity: str, note: PollNote, position: int, left: int, now_ms: int) -> tuple[PollNote | None, int]:
        # That of a failed search says when it failed, and not when the last one was made.
        since_ms = 0 if note.sweep_failures else note.swept_at_ms
        is_over, left = self._hard_deletes.search(entity, position, left, since_ms)
        return (replace(note, swept_at_ms=now_ms, sweep_error=None, sweep_failures=0) if is_over else None), left

    def _compare(
        self, entity: str, note: PollNote, position: int, now_ms: int, may_go_on: Callable[[], bool]
    ) -> PollNote | None:
        """Begin or go on with the comparison of an object; returns its note, None where it is not over."""
        how = self.readability(entity, note)
        comparison, self._comparison = self._comparison or self._begin(entity, how, position), None
        found = comparison.go_on(may_go_on)
        if found is None:
            self._comparison = comparison
            return None
        if found.differing:
            log.info("%s: %d records differ, though no stamp says so; they are read back", entity, found.differing)
        compared = replace(note, compared_at_ms=now_ms, swept_at_ms=now_ms, sweep_error=None, sweep_failures=0)
        if how.stamp is None:
            seen = found.asked_at_ms - int(self._org.poll.visibility_seconds * 1000)
            compared = replace(compared, asked_at_ms=clock.now_ms(), seen_until_ms=seen)
        return compared

    def _begin(self, entity: str, how: Readability, position: int) -> ObjectComparison:
        """Begin a comparison. Raises `ComparisonWaits` where it takes a Bulk job, and the org has no room for one."""
        waits = self._jobs.begin() if takes_a_job(self._warehouse, entity) else None
        if waits is not None:
            raise ComparisonWaits(entity, waits)
        fields = ALL_FIELDS if how.stamp is None else how.unstamped
        return ObjectComparison(self._warehouse, self._org, entity, fields, position)


_NEVER = 2**62
_LONG_AGO_MS = 1


def _by_now(note: PollNote, now_ms: int) -> PollNote:
    """Return the note; what it says was done later than now counts as due: a clock that was ahead has been set back."""
    if max(note.swept_at_ms, note.compared_at_ms) <= now_ms:
        return note
    swept_at_ms, compared_at_ms = (
        each if each <= now_ms else _LONG_AGO_MS for each in (note.swept_at_ms, note.compared_at_ms)
    )
    return replace(note, swept_at_ms=swept_at_ms, compared_at_ms=compared_at_ms)


def _is_new(note: PollNote | None) -> bool:
    return note is None or not note.swept_at_ms


def _is_in_the_table(facts: EntityFacts | None) -> bool:
    """Return whether all that was read of an object is in its table."""
    return facts is not None and facts.are_built and facts.last_read_back <= facts.checkpoint.read_back


def _failed(entity: str, note: PollNote, error: Exception, now_ms: int) -> PollNote:
    """Return the note of an object that could not be looked at. Raises what concerns all objects."""
    if isinstance(error, OF_EVERY_OBJECT):
        raise error
    unforeseen = None if isinstance(error, SfcdcError) else error
    what = "its records could not be counted or compared, to find what no stamp tells of"
    log.warning("%s: %s: %s", entity, what, error, exc_info=unforeseen)
    return replace(note, swept_at_ms=now_ms, sweep_error=str(error), sweep_failures=note.sweep_failures + 1)
