"""One poll of one object: what was changed since the last one, page by page, as rows of `snapshot/<Entity>`.

Rows and the mark of how far the poll has come are one commit. A poll that is interrupted, or has no time left, goes on
where it stopped; one that is done begins the next some time before itself, because what a long transaction changed
becomes visible late. Where the org gives up on a query of so much, it is asked for the stamps of some time only, and
for those of more with each poll that it answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sfcdc_assets.change_events.column_types import FORMS, ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.lake.store.poll_notes import PollNote
from sfcdc_assets.lake.tables.change_of_channel import OtherChannel
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.poll_mark import PollMark
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.mere_stamps import MereStamps, perhaps_stamped
from sfcdc_assets.landing.seen_records import SeenRecords
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.polls.cursor import OPEN_BEFORE, Cursor, order, soql_time
from sfcdc_assets.polls.readability import NotPollable, readability
from sfcdc_assets.polls.stamp import Stamp
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.times import utc
from sfcdc_assets.salesforce.api_name import by_any_case
from sfcdc_assets.salesforce.composite_query import QueryPage, next_page
from sfcdc_assets.salesforce.errors import QueryRefused
from sfcdc_assets.schema_evolution.table_columns import SchemaMissing, columns_of_table, newest_describe
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.snapshot.soql import where_all
from sfcdc_assets.timeline.rest_rows import typed_rows
from sfcdc_assets.timeline.suspect import NewSuspect, Reason

ALWAYS = ("Id", "IsDeleted", "MasterRecordId")
UNKNOWN_CLOCK = timedelta(hours=1)
"""How far the org's clock may be from ours where the org does not say when it was asked for a copy."""
LEAST_WINDOW_MS = 1_000
"""Stamps are in whole seconds: less time than that cannot be asked for."""
NARROWER, WIDER = 4, 2
"""By so much a window gets shorter with each query that the org gives up on, which takes two minutes, and longer with
each that it answers."""


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Polled:
    """What a poll came to: rows that are new, and the note of it."""

    rows: int
    note: PollNote


class ObjectPoll:
    """A poll of an object that was copied, from before it is asked."""

    def __init__(
        self,
        warehouse: Warehouse,
        org: OrgConnection,
        entity: str,
        note: PollNote,
        seen: SeenRecords,
        covered_ms: int = 0,
    ) -> None:
        """`note`: of the last poll. `covered_ms`: the time (epoch ms, UTC, by the org's clock) before which no change
        becomes visible any more that was not before; 0: not known. Raises `NotPollable`, `SchemaMissing`, and
        `OtherChannel` where a channel has got the object meanwhile: a poll's position is none among its events."""
        self.entity = entity
        self._warehouse, self._org, self._note, self._seen = warehouse, org, note, seen
        self._covered_ms = covered_ms
        taken = Snapshots.open(warehouse, entity)
        assert taken is not None, entity
        if not taken.has_watermark_on(POLLED):
            raise OtherChannel(entity, POLLED)
        self._taken = taken
        schemas = Schemas(warehouse)
        description = newest_describe(schemas.of_entity(entity))
        if description is None:
            raise SchemaMissing(entity)
        stamp = readability(description).stamp
        if stamp is None:
            raise NotPollable(entity, "it has no field to ask by for what changed", "let it be compared as a whole")
        self._stamp: Stamp = stamp
        self._columns: tuple[Column, ...] = columns_of_table(schemas, entity, taken.table.schema, org.privacy)
        spelt = by_any_case(description.field_names)
        self._asked = {
            spelt[column.name.lower()]: column.name for column in self._columns if column.name.lower() in spelt
        }
        beside = [name for name in (*ALWAYS, self._stamp.field) if name in description.field_names]
        self._fields = tuple(dict.fromkeys([*beside, *self._asked]))
        self._unread = sorted({column.name for column in self._columns} - set(self._asked.values()) - {"Id"}) or None
        self._where = org.poll.of(entity).where
        self._reread = org.poll.overlap_of(entity)
        self._mark = taken.poll_mark()
        self._goes_on = self._mark.under_way is not None or note.window_begun_ms > 0
        usual = self._usual_begin()
        self._open_from_ms = note.covered_ms
        if not (note.covered_ms or note.read_from_ms):  # nobody has noted which transactions were open
            self._open_from_ms = usual.back_by(OPEN_BEFORE).stamp_ms
        self._from = self._begins_at(usual)
        self._until = self._from.ahead_by(timedelta(milliseconds=note.window_ms)) if note.window_ms else None
        self._read_back = taken.last_read_back()
        self._mere_stamps = MereStamps(warehouse, entity, taken)

    @property
    def query(self) -> str:
        """The SOQL of what is new."""
        field = self._stamp.field
        end = f"{field} < {soql_time(self._until.stamp)}" if self._until else None
        where = where_all(self._from.condition(field), end, self._where)
        return f"SELECT {', '.join(self._fields)} FROM {self.entity}{where} {order(field)}"

    def narrowed(self, error: QueryRefused) -> PollNote | None:
        """Return the note with which the next poll asks for the stamps of less time, as the org has given up on this
        one; None where there is no less, or that is not why it was refused."""
        if not error.took_too_long:
            return None
        window_ms = (self._note.window_ms or clock.now_ms() - self._from.stamp_ms) // NARROWER
        if window_ms < LEAST_WINDOW_MS:
            return None
        return replace(self._note, asked_at_ms=clock.now_ms(), error=str(error), window_ms=window_ms, has_more=True)

    def land(self, page: QueryPage, position: Callable[[], int], may_go_on: Callable[[], bool] = _always) -> Polled:
        """Add the rows of the first page of the query, and of those that follow while it `may_go_on`; what is left is
        for the next poll. `position` gives the place of this poll in the order of polls, which is asked for when there
        is something to place.

        Raises `ConcurrentCommit` where another process has polled the object meanwhile, and what the session raises:
        what was read before is kept, and the next poll goes on from there.
        """
        asked_at, count = page.asked_at, 0
        begun = self._begun(asked_at)
        has_more = self._until is not None and asked_at is not None and self._until.stamp < asked_at
        while True:
            record_ids = [str(row["Id"]) for row in page.rows]
            self._seen.learn(self._warehouse, self.entity, record_ids, self._note.seen_until_ms)
            new = self._new_rows(page)
            is_last = page.next_path is None
            mark = self._mark_after(page, begun, is_last=is_last, has_more=has_more)
            if new:
                count += self._add(new, mark, position)
            elif self._mark.under_way is not None:
                self._note_mark(mark)
            if is_last:
                break
            assert page.next_path is not None
            if not may_go_on():
                if self._mark != mark:
                    self._note_mark(mark)
                return Polled(count, replace(self._note, asked_at_ms=clock.now_ms(), has_more=True, error=None))
            page = next_page(self._org.session, self.query, page.next_path)
        self._seen.is_new = False
        self._seen.forget_before(Cursor.of_ms(mark.read_from_ms).stamp)
        return Polled(count, self._noted(asked_at, begun, mark, is_new=count > 0, has_more=has_more))

    def _usual_begin(self) -> Cursor:
        """Return where a poll begins of which nothing else is known."""
        copied_at = self._taken.asked_at()
        if copied_at is None:
            copied_at = utc(self._taken.read_at()) - UNKNOWN_CLOCK
        of_copy = Cursor(copied_at).back_by(self._reread)
        return max(of_copy, Cursor.of_ms(max(self._mark.read_from_ms, self._note.read_from_ms)))

    def _begins_at(self, usual: Cursor) -> Cursor:
        if self._mark.under_way is not None:
            return self._mark.under_way
        if self._note.window_at_ms:
            return Cursor.of_ms(self._note.window_at_ms)
        return min(usual, Cursor.of_ms(self._open_from_ms)) if self._ends_a_transaction() else usual

    def _ends_a_transaction(self) -> bool:
        """Return whether what was open at the last poll is not any more: its changes have stamps from its beginning."""
        return 0 < self._open_from_ms < self._covered_ms

    def _covered_after(self) -> int:
        """Return from when on transactions were open, of those whose changes were not read."""
        before, now = self._open_from_ms, self._covered_ms
        if not before or (self._ends_a_transaction() and not self._goes_on):
            return now
        return min(before, now or before)

    def _begun(self, asked_at: datetime | None) -> datetime | None:
        """Return when the poll was begun, by the org's clock: one that goes on was before."""
        if self._mark.under_way is None:
            return Cursor.of_ms(self._note.window_begun_ms).stamp if self._note.window_begun_ms else asked_at
        return Cursor.of_ms(self._mark.begun_ms).stamp if self._mark.begun_ms else None

    def _mark_after(self, page: QueryPage, begun: datetime | None, *, is_last: bool, has_more: bool) -> PollMark:
        if not is_last:
            last = page.rows[-1]
            cursor = Cursor(self._stamp_in(last), str(last["Id"]))
            return self._mark.stopped_at(cursor, Cursor(begun).stamp_ms if begun else 0)
        if has_more:
            return self._mark.finished(self._mark.read_from_ms)
        if begun is None:  # nothing but the records' own stamps says how far it has come
            stamps = [self._stamp_in(row) for row in page.rows] or [self._from.stamp]
            begun = stamps[-1]
        read_from = Cursor(begun).back_by(self._reread)
        return self._mark.finished((min(read_from, self._until) if self._until else read_from).stamp_ms)

    def _new_rows(self, page: QueryPage) -> dict[str, Mapping[str, Any]]:
        """Return the page's records by Id, under the columns' names, without those that are no news."""
        found: dict[str, Mapping[str, Any]] = {}
        for row in page.rows:
            record_id, stamp = str(row["Id"]), self._stamp_in(row)
            if self._seen.has(record_id, stamp):
                continue
            self._seen.add(record_id, stamp, page.asked_at)
            found[record_id] = {self._asked.get(name, name): value for name, value in row.items()}
        return found

    def _add(self, found: Mapping[str, Mapping[str, Any]], mark: PollMark, place: Callable[[], int]) -> int:
        """Add the records, but for those to which nothing happened; returns how many there are."""
        now_ms = clock.now_ms()
        read_at = utc(now_ms)
        stamped = perhaps_stamped(found, self._stamp.field)
        if stamped:
            shown = {record_id: found[record_id] for record_id in stamped}
            rows, _ = typed_rows("", shown, self._columns, self._unread, 0, read_at, stamp=self._stamp.field)
            mere = self._mere_stamps.among(rows, stamped)
            found = {record_id: row for record_id, row in found.items() if record_id not in mere}
        if not found:
            if self._mark.under_way is not None or mark.under_way is not None:
                self._note_mark(mark)
            return 0
        position = place()
        source = self._org.session.url_of("queryAll/")
        rows, spoiled = typed_rows(
            source, found, self._columns, self._unread, position, read_at, stamp=self._stamp.field
        )
        if spoiled:
            suspects = [NewSuspect(each, Reason.UNREADABLE_ROW, position, why) for each, why in spoiled.items()]
            Ledger.open_or_create(self._warehouse, self.entity).note(suspects, POLLED, position, now_ms)
        self._taken.add_poll(rows, now_ms, mark, self._seen_until())
        self._mere_stamps.were_read(found)
        self._mark = mark
        return len(found)

    def _note_mark(self, mark: PollMark) -> None:
        """Note that an interrupted poll is over, or further."""
        empty = typed_rows("", {}, self._columns, None, 0, datetime.now(UTC))[0]
        self._taken.add_poll(empty, clock.now_ms(), mark, self._seen_until())
        self._mark = mark

    def _seen_until(self) -> datetime:
        """Return up to when all changes had been seen before this poll."""
        if self._note.seen_until_ms:
            return Cursor.of_ms(self._note.seen_until_ms).stamp
        copied_at = self._taken.asked_at()
        return copied_at if copied_at is not None else self._from.stamp

    def _noted(
        self, asked_at: datetime | None, begun: datetime | None, mark: PollMark, *, is_new: bool, has_more: bool
    ) -> PollNote:
        seen, before = self._note.seen_until_ms, self._note
        if asked_at is not None and not has_more:
            seen = Cursor(asked_at - timedelta(seconds=self._org.poll.visibility_seconds)).stamp_ms
        is_same = not (is_new or self._goes_on) and before.read_back == self._read_back
        covered_ms = self._covered_after()
        return replace(
            before,
            asked_at_ms=clock.now_ms(),
            seen_until_ms=seen,
            read_from_ms=mark.read_from_ms,
            covered_ms=covered_ms,
            error=None,
            failures=0,
            has_more=has_more,
            window_ms=before.window_ms * WIDER if has_more else 0,
            window_at_ms=self._until.stamp_ms if has_more and self._until else 0,
            window_begun_ms=Cursor(begun).stamp_ms if has_more and begun else 0,
            read_back=self._taken.last_read_back(),
            same_since_ms=before.same_since_ms or Cursor(self._seen_until()).stamp_ms if is_same else seen,
        )

    def _stamp_in(self, row: Mapping[str, Any]) -> datetime:
        """Return a record's stamp; one that has none was never changed since there were stamps."""
        value = row.get(self._stamp.field)
        if value is None:
            return self._from.stamp
        found: datetime = FORMS[ColumnType.TIMESTAMP].from_json(value)
        return found.astimezone(UTC)


def failed_again(note: PollNote, error: Exception, now_ms: int) -> PollNote:
    """Return the note of an object that could not be polled."""
    return replace(note, asked_at_ms=now_ms, error=str(error), failures=note.failures + 1, has_more=False)
