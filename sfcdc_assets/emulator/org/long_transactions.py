"""Transactions that stay open: their statements have run, and nobody sees what they did before they are committed.

The stamps of their records are those of their statements, as are the ids of new ones. So a record can become visible
long after others with later stamps and higher ids have: a reader who goes by either has to read again what is behind
him (https://help.salesforce.com/s/articleView?id=000199029, "getUpdated and long-running transactions"). Until then the
rows that a transaction has written are locked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import whole_second
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.transaction import Transaction
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork

Act = Callable[[UnitOfWork], None]


@dataclass(frozen=True)
class _Statement:
    at: int
    act: Act


class LongTransaction:
    """One open transaction. Each statement is checked when it is given; what others commit meanwhile may still make the
    commit fail, which undoes all of it. Raises RecordError, INVALID_OPERATION once it has ended."""

    def __init__(
        self, org: OrgCore, those: LongTransactions, number: int, user_id: str | None, seconds: int | None
    ) -> None:
        """`those`: of the org, which it is among as long as it is open."""
        self.number = number
        self.started_at = whole_second(org.clock() + org.clock_skew)
        """From here on (epoch ms, whole seconds) nobody can be sure to have seen everything."""
        self.due_at = None if seconds is None else org.clock() + seconds * 1000
        """When it is committed by itself."""
        self.locked: frozenset[str] = frozenset()
        """Ids of the records that it has written."""
        self._org, self._those = org, those
        self._user_id = user_id
        self._statements: list[_Statement] = []

    def create(self, entity: str, values: Mapping[str, object]) -> str:
        """Insert a record; its id is taken now."""
        definition = self._org.definitions.get(entity)
        if definition is None:
            raise RecordError("NOT_FOUND", "The requested resource does not exist", status=404)
        number = self._org.store.reserve(definition)

        def create(work: UnitOfWork) -> None:
            work.create(entity, values, number=number)

        self.run(create)
        return self._org.store.record_id(definition, number)

    def update(self, entity: str, record_id: str, values: Mapping[str, object]) -> None:
        """Set fields of a record."""
        self.run(lambda work: work.update(entity, record_id, values))

    def delete(self, entity: str, record_id: str) -> None:
        """Move a record to the recycle bin."""
        self.run(lambda work: work.delete(entity, record_id))

    def run(self, act: Act) -> None:
        """Run any statement of a unit of work. It runs once more at the commit."""
        self._check_open()
        statement = _Statement(whole_second(self._org.clock() + self._org.clock_skew), act)
        with self._org.database.undone():
            work = self._those.unit_of_work(self._user_id, self)
            self._replay(work, [*self._statements, statement])
            self.locked = frozenset(work.written_ids())
        self._statements.append(statement)

    def commit(self) -> Transaction | None:
        """Make it visible, now; None if it changed nothing."""
        self._check_open()
        self._those.end(self)
        with self._org.transaction(user_id=self._user_id) as work:
            self._replay(work, self._statements)
        return work.committed

    def roll_back(self) -> None:
        """Undo it; ids that it took stay unused."""
        self._check_open()
        self._those.end(self)

    def _replay(self, work: UnitOfWork, statements: list[_Statement]) -> None:
        for each in statements:
            work.timestamp = work.modstamp = each.at
            each.act(work)

    def _check_open(self) -> None:
        if self not in self._those.open:
            raise RecordError("INVALID_OPERATION", f"transaction {self.number} has ended")


class LongTransactions:
    """Those of one org; they live as long as its process."""

    def __init__(self, org: OrgCore, unit_of_work: Callable[[str | None, LongTransaction], UnitOfWork]) -> None:
        """`unit_of_work`: the DML that begins now, of a user (None: the client's), in one that has locks."""
        self._org = org
        self.unit_of_work = unit_of_work
        self._number = 0
        self.open: tuple[LongTransaction, ...] = ()
        """The oldest first."""

    def begin(self, *, user_id: str | None = None, seconds: int | None = None) -> LongTransaction:
        """Open one. `seconds`: after so many, by the org's clock, the next that anybody does with the org commits it;
        otherwise it waits for `commit`."""
        with self._org.database.lock:
            self._number += 1
            begun = LongTransaction(self._org, self, self._number, user_id, seconds)
            self.open = (*self.open, begun)
        return begun

    def numbered(self, number: int) -> LongTransaction:
        """Return an open one. Raises RecordError NOT_FOUND."""
        for each in self.open:
            if each.number == number:
                return each
        raise RecordError("NOT_FOUND", f"there is no open transaction {number}", status=404)

    def end(self, ended: LongTransaction) -> None:
        """Forget one, whose locks are free."""
        with self._org.database.lock:
            self.open = tuple(each for each in self.open if each is not ended)

    def commit_due(self) -> None:
        """Commit those whose time has come."""
        now = self._org.clock()
        for each in self.open:
            if each.due_at is not None and each.due_at <= now:
                each.commit()

    def locked(self, *, but: LongTransaction | None = None) -> frozenset[str]:
        """Return the ids of records that nobody else can write now."""
        return frozenset().union(*(each.locked for each in self.open if each is not but))

    @property
    def complete_until(self) -> int:
        """The time (epoch ms) before which no stamp can come any more: what `latestDateCovered` of `updated` is made
        of."""
        org = self._org
        now = org.clock() + org.clock_skew
        behind = max(org.settings.longest_transaction, org.rest_delay, org.stale_modstamp)
        return min([now - behind, *(each.started_at for each in self.open)])
