"""Reading the polled objects: those that are due are asked for what changed, five in a request.

To whoever drives channels they are one more channel: it is read, and what came is applied, copied and cut as for any
other. Its positions are those of polls: all rows of one reading stand at the same one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sfcdc_assets.entities.refused_reads import refuse_now
from sfcdc_assets.lake.errors import ConcurrentCommit
from sfcdc_assets.lake.store.channel_reads import ReadNote
from sfcdc_assets.lake.store.poll_notes import (
    PollNote,
    note_polls,
    note_polls_stopped,
    read_poll_notes,
)
from sfcdc_assets.lake.tables.change_of_channel import OtherChannel
from sfcdc_assets.lake.tables.object_shapes import keep_shapes
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.covered_time import CoveredTime
from sfcdc_assets.landing.daily_checks import REQUESTS, DailyChecks
from sfcdc_assets.landing.land import LandingReport
from sfcdc_assets.landing.object_poll import ObjectPoll, Polled, failed_again
from sfcdc_assets.landing.poll_budget import PollBudget
from sfcdc_assets.landing.poll_order import OnePosition, begin_order
from sfcdc_assets.landing.poll_timeouts import PollTimeouts
from sfcdc_assets.landing.polled_entities import PolledEntities
from sfcdc_assets.landing.retry_pause import OF_EVERY_OBJECT, RetryPause
from sfcdc_assets.landing.seen_records import SeenRecords
from sfcdc_assets.org_connection.described_objects import note_described
from sfcdc_assets.org_connection.object_trial import OF_ITS_STAMP, refuses_stamp
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.due import Asked, due_objects
from sfcdc_assets.polls.readability import Readability
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.salesforce.composite_query import MOST_QUERIES, QueryPage, first_pages
from sfcdc_assets.salesforce.describe import describe_whole
from sfcdc_assets.salesforce.errors import ApiLimitReached, EntityNotReadable, QueryRefused
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.timeline.suspect import Reason

log = logging.getLogger(__name__)

COVERED_MS = 86_400_000
"""For an object that waits to be copied, the org is asked this often which transactions are open."""
TRIES = 3
"""How often an object is asked in a reading when others are always first to commit what they have read of it."""
_NOT_READABLE = frozenset({"INVALID_TYPE", "INSUFFICIENT_ACCESS", "INVALID_TYPE_FOR_OPERATION"})
_NO_SUCH_FIELD = "INVALID_FIELD"


class PolledReader:
    """Reads the polled objects of an org into a warehouse; its calls are made one at a time, from any thread."""

    def __init__(self, warehouse: Warehouse, org: OrgConnection, pause: RetryPause | None = None) -> None:
        """`pause`: the channel's, where it outlives this reader."""
        self._warehouse, self._org = warehouse, org
        self._pause = pause or RetryPause()
        self._read_note = ReadNote(warehouse, POLLED)
        self._seen: dict[str, SeenRecords] = {}
        self._checks = DailyChecks(warehouse, org)
        self._notes: dict[str, PollNote] | None = None
        self._entities = PolledEntities(warehouse, org, self._begin_with_notes)
        self._covered = CoveredTime(org)
        self._budget = PollBudget(warehouse, org)
        self._lock = threading.Lock()
        self._is_new = True
        self._is_stopped: bool | None = None
        """Whether the last reading failed for all objects; None: it was another process's."""
        self.is_open = True
        self.responses = 0
        self.on_events: Callable[[], object] = _nothing
        """Called when rows have come, before they are added."""

    def land(self, timeouts: PollTimeouts, entity: str | None = None) -> LandingReport:
        """Ask the objects that are due, or all where the timeouts say so and this reader has not asked before;
        `entity`: this one alone, due or not, unless all are asked.

        An object that cannot be polled does not keep the others from it: why is noted, and shown by `sfcdc status`.
        Raises what concerns all of them: an org that cannot be reached, a used-up allowance, a warehouse that cannot
        be written to.
        """
        with self._lock:
            self._pause.check()
            calls, report = self._org.session.calls_of_this_thread, LandingReport(POLLED)
            try:
                begin_order(self._warehouse)
                self._poll(timeouts, report, entity)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is raised
                if isinstance(error, ApiLimitReached):
                    self._budget.ran_out(error)
                self._pause.failed(error)
                self._is_stopped = True
                note_polls_stopped(self._warehouse, str(error), clock.now_ms())
                raise (self._pause.said(error) if timeouts.goes_on else error) from error.__cause__
            finally:
                self._budget.end(self._org.session.calls_of_this_thread - calls)
            self._pause.worked()
            if self._is_stopped is not False:
                note_polls_stopped(self._warehouse, None, clock.now_ms())
                self._is_stopped = False
            self._read_note.answered()
            stored = RawEvents.open(self._warehouse).stored_checkpoint(POLLED)
            report.position, report.complete_position = stored.position, stored.complete_position
            report.complete_through_ms = clock.now_ms()
            report.has_checkpoint = report.has_answered = True
            report.api_requests = self._org.session.calls_of_this_thread - calls
            return report

    def close(self) -> None:
        """End it: nothing is on its way."""

    def drop(self) -> None:
        """End it."""

    def _poll(self, timeouts: PollTimeouts, report: LandingReport, wanted: str | None) -> None:
        notes = self._notes = self._notes if self._notes is not None else read_poll_notes(self._warehouse)
        interval_ms, now_ms = int(self._org.poll.seconds * 1000), clock.now_ms()
        asked = {entity: _asked(note, int(self._org.poll.seconds_of(entity) * 1000)) for entity, note in notes.items()}
        stamped = self._stamped()
        if self._is_new and timeouts.asks_all:
            asked = {}
        elif wanted is not None:
            stamped, asked = tuple(each for each in stamped if each == wanted), {}
        due = self._budget.begin(due_objects(stamped, asked, now_ms, interval_ms))
        self._is_new = False
        waiting = [
            entity
            for entity in self._entities.not_begun
            if now_ms - notes.get(entity, PollNote()).covered_asked_ms >= COVERED_MS
        ]
        covered_ms = self._covered.ask([*due, *waiting]) if due or waiting else 0
        may_go_on = self._until(timeouts)
        position = OnePosition(self._warehouse)
        # What is open while a copy is made is read by the first poll after it has ended.
        done = {entity: PollNote(covered_ms=covered_ms, covered_asked_ms=now_ms) for entity in waiting}
        try:
            turns = 0
            while due and (turns == 0 or may_go_on()):
                some, due, turns = due[:MOST_QUERIES], due[MOST_QUERIES:], turns + 1
                polled = self._poll_some(some, covered_ms, position, report, may_go_on)
                done |= polled
                notes |= polled
                if not timeouts.goes_on:  # nobody reads on later: what is left has its turn after the others
                    due = (*due, *(entity for entity, note in polled.items() if note.has_more))
            if not timeouts.goes_on:
                self._budget.postpone(due)
            requests = self._budget.for_counts(REQUESTS)
            done |= self._checks.look(self._entities.copied(), notes, now_ms, requests, may_go_on)
        finally:
            if done:
                notes |= done
                note_polls(self._warehouse, done)

    def _until(self, timeouts: PollTimeouts) -> Callable[[], bool]:
        """Return whether there is time, and room for a request more; who comes once has the time that it takes."""
        deadline = clock.current().monotonic() + timeouts.budget
        calls = self._org.session.calls_of_this_thread

        def may_go_on() -> bool:
            if timeouts.goes_on and clock.current().monotonic() >= deadline:
                return False
            return self._budget.has_room(self._org.session.calls_of_this_thread - calls)

        return may_go_on

    def _poll_some(
        self,
        entities: Sequence[str],
        covered_ms: int,
        position: Callable[[], int],
        report: LandingReport,
        may_go_on: Callable[[], bool],
        tries: int = TRIES,
    ) -> dict[str, PollNote]:
        """Return the notes of these objects after their polls. One whose records somebody else has read meanwhile, or
        whose fields are others by now, is asked once more, a few times; one that a channel has got is left alone."""
        notes: dict[str, PollNote] = {}
        overtaken: list[str] = []
        polls: list[ObjectPoll] = []
        for entity in entities:
            begun = outcome_of(self._begun, entity, covered_ms)
            if isinstance(begun, OtherChannel):
                continue
            if isinstance(begun, Exception):
                notes[entity] = self._not_polled(entity, begun)
            else:
                polls.append(begun)
        if not polls:
            return notes
        pages = first_pages(self._org.session, [poll.query for poll in polls])
        if any(isinstance(page, QueryPage) and page.rows for page in pages):
            self.on_events()
        for poll, page in zip(polls, pages, strict=True):
            landed = page if isinstance(page, Exception) else outcome_of(poll.land, page, position, may_go_on)
            narrowed = poll.narrowed(landed) if isinstance(landed, QueryRefused) else None
            if isinstance(landed, Polled):
                notes[poll.entity] = landed.note
                report.events[poll.entity] += landed.rows
            elif narrowed is not None:
                log.info("%s: the org gave up on a poll; it is asked for %d s", poll.entity, narrowed.window_ms // 1000)
                self._seen.pop(poll.entity, None)
                notes[poll.entity] = narrowed
            elif self._is_asked_again(poll, landed) and tries > 1:
                overtaken.append(poll.entity)
            else:
                notes[poll.entity] = self._not_polled(poll.entity, landed)
        self.responses += 1
        return notes | self._poll_some(overtaken, covered_ms, position, report, may_go_on, tries - 1)

    def _begun(self, entity: str, covered_ms: int) -> ObjectPoll:
        assert self._notes is not None
        seen = self._seen.setdefault(entity, SeenRecords())
        return ObjectPoll(self._warehouse, self._org, entity, self._notes.get(entity, PollNote()), seen, covered_ms)

    def _is_asked_again(self, poll: ObjectPoll, error: Exception) -> bool:
        """Return whether the object would not be asked or answered now as it was. Raises what concerns all objects."""
        self._seen.pop(poll.entity, None)  # what was read may not be in the table
        if not isinstance(error, QueryRefused) or error.error_code != _NO_SUCH_FIELD:
            return isinstance(error, ConcurrentCommit)
        unanswered = outcome_of(self._describe, poll.entity)
        if unanswered is not None:
            _raise_of_all(unanswered)
            log.warning("%s could not be described again: %s", poll.entity, unanswered)
        begun = outcome_of(self._begun, poll.entity, 0)
        return isinstance(begun, ObjectPoll) and begun.query != poll.query

    def _not_polled(self, entity: str, error: Exception) -> PollNote:
        """Note why, and draw the conclusion from it. Raises what concerns all objects."""
        self._seen.pop(entity, None)  # first of all: what was read may not be in the table
        _raise_of_all(error)
        now_ms = clock.now_ms()
        assert self._notes is not None
        before = self._notes.get(entity, PollNote())
        if (stamp := self._refused_stamp(entity, before, error)) is not None:
            log.warning("%s is compared as a whole; it cannot be polled by %s: %s", entity, stamp, error)
            return replace(before, refused_stamp=stamp, error=None, failures=0)
        log.warning("%s could not be polled: %s", entity, error, exc_info=_unforeseen(error))
        if isinstance(error, QueryRefused) and error.error_code in _NOT_READABLE:
            refuse_now(self._warehouse, entity, Reason.NOT_READABLE, POLLED, str(error))
        return failed_again(before, error, now_ms)

    def _refused_stamp(self, entity: str, note: PollNote, error: Exception) -> str | None:
        """Return the object's stamp where it was that for which the poll was refused."""
        if not isinstance(error, QueryRefused) or error.error_code not in OF_ITS_STAMP:
            return None
        how = outcome_of(self._checks.readability, entity, note)
        if not isinstance(how, Readability) or how.stamp is None:
            return None
        return how.stamp.field if refuses_stamp(self._org.session, entity, how.stamp.field) else None

    def _describe(self, entity: str) -> None:
        """Follow an object whose fields are not those that were asked for."""
        self._checks.forget(entity)
        try:
            described = describe_whole(self._org.session, entity)
            note_described(self._org, Schemas(self._warehouse), entity, described, polled=True)
            keep_shapes(self._warehouse, [described.shape], clock.now_ms())
        except EntityNotReadable as refused:
            refuse_now(self._warehouse, entity, Reason.NOT_READABLE, POLLED, str(refused))

    def _begin_with_notes(self, entities: Collection[str]) -> None:
        """Take what was noted of objects when they were copied, or taken along from another channel: what this process
        knows of their polls before is past."""
        if not entities or self._notes is None:
            return
        noted = read_poll_notes(self._warehouse)
        for entity in entities:
            self._notes[entity] = noted.get(entity, PollNote())
            self._seen.pop(entity, None)

    def _stamped(self) -> tuple[str, ...]:
        """Return those that are asked for what changed; the others are compared as a whole."""
        notes, how = self._notes or {}, self._checks.readability
        entities = self._entities.copied(looks_again=self._is_new)
        return tuple(each for each in entities if _is_asked(outcome_of(how, each, notes.get(each))))


def _asked(note: PollNote, interval_ms: int) -> Asked:
    """Return when an object was asked, and for how long it had been quiet by then."""
    quiet_ms = note.seen_until_ms - note.same_since_ms if note.same_since_ms else 0
    return Asked(note.asked_at_ms, note.failures, max(0, quiet_ms), interval_ms, note.has_more)


def _raise_of_all(error: Exception) -> None:
    """Raise what every object would meet."""
    if isinstance(error, OF_EVERY_OBJECT):
        raise error


def _unforeseen(error: Exception) -> Exception | None:
    """Return what nobody raises on purpose, for whoever mends it."""
    return None if isinstance(error, SfcdcError) else error


def _is_asked(how: Readability | Exception) -> bool:
    """Return whether an object has a stamp; one of which nothing is known is asked, which says what is wrong."""
    return isinstance(how, Exception) or how.stamp is not None


def _nothing() -> None:
    """Nobody waits for rows."""
