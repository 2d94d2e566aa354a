"""The rolling audit: each run compares some records with the org, so that in some days all of them are compared.

What a run has just changed is compared, and then what has not been looked at for longest: a window of Ids on both
sides, so that records only one of them has are found too. The org goes on changing while it is read, and a run does not
read the stream for it. So something that differs is a suspicion at first. It is a difference when a later look, made
when the stream has reported all that was committed before the first one, finds the table still different and the org as
it was then. That costs a look more and never takes an event that is on its way for an error.

Nothing is written but what was looked at: who calls this hands on what differs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from sfcdc_assets.lake.store.poll_notes import PollNote, read_poll_notes
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.damage import of_readable
from sfcdc_assets.lake.tables.erasure_receipts import erased_records
from sfcdc_assets.lake.tables.rolling_audits import LastComparison, RollingAudits, Suspicion
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.daily_checks import readability_of
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.org_reads.compare import MISSING, Difference, one_sided
from sfcdc_assets.polls.readability import Readability
from sfcdc_assets.reconciliation.audit_budget import AuditBudget, audit_budget
from sfcdc_assets.reconciliation.audit_turns import days_for_all, whose_turn
from sfcdc_assets.reconciliation.behind_polls import seen_through_ms
from sfcdc_assets.reconciliation.compare_ids import compare_ids
from sfcdc_assets.runtime import clock
from sfcdc_assets.runtime.concurrency import outcome_of
from sfcdc_assets.runtime.errors import SfcdcError, counted
from sfcdc_assets.salesforce.query import query_rows
from sfcdc_assets.schema_evolution.table_columns import columns_of_table
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.snapshot.soql import IdWindow, where_all

WINDOW = 1_500
"""Live records of a window. With those the table lacks, and what was changed, they fit into one retrieve of 2,000."""
CHANGED = 200
"""Records of those that a run has changed."""
REQUESTS = 4
"""What a look may take: the ids of a window, a retrieve for it, one for what was changed, and one for records that are
gone."""
MOST_SUSPICIONS = 200


@dataclass(frozen=True)
class RollingReport:
    """What a run compared, what is different for sure, and what may be; the budget; and how many days a pass over all
    records takes with it."""

    compared: Mapping[str, int]
    differences: tuple[Difference, ...]
    suspicions: int
    budget: AuditBudget
    requests: int
    days_for_all: float | None
    failed: str | None = None


def look(
    run: OrgRunContext,
    built: Mapping[str, str],
    changed: Mapping[str, Collection[str]],
    landed_until_ms: Mapping[str, int],
    most_looks: int = 1,
) -> RollingReport:
    """Compare what the budget allows for, in so many looks at most.

    `built`: entities that have a table, with their channels; `changed`: ids of the records a run has changed;
    `landed_until_ms`: channel -> the time before which all that the org committed is in the tables; of a polled object
    that is the last poll before it, or the last comparison.
    """
    audits, org, percent = RollingAudits(run.warehouse), run.org, run.settings.audit_percent
    calls, auditor = org.session.calls, _Auditor(run, built, landed_until_ms)
    compared: Counter[str] = Counter()
    budget = audit_budget(audits, org, percent, clock.now_ms())
    for _ in range(most_looks if built else 0):
        budget = audit_budget(audits, org, percent, clock.now_ms())
        if budget.now < REQUESTS:
            break
        compared += auditor.look(audits, changed)
        changed = {}
    if budget.now < REQUESTS and budget.why_not is None:
        budget = replace(
            budget, why_not=f"{counted(budget.now, 'request')} left for now, and a look may take {REQUESTS}"
        )
    suspicions = sum(len(each.suspicions) for entity, each in audits.looks().items() if entity in built)
    return RollingReport(
        dict(compared),
        tuple(auditor.differences.values()),
        suspicions - len(auditor.differences),
        budget,
        org.session.calls - calls,
        _days_for_all(run.warehouse, built, budget),
        "; ".join(auditor.failed) or None,
    )


class _Auditor:
    def __init__(self, run: OrgRunContext, built: Mapping[str, str], landed_until_ms: Mapping[str, int]) -> None:
        self._warehouse = run.warehouse
        self._org = run.org
        self._privacy = run.privacy
        self._built = built
        self._landed_until_ms = landed_until_ms
        self._until_ms: dict[str, int] = {}
        """By entity: an object's describe is read once for all of its suspicions."""
        self._schemas = Schemas(run.warehouse)
        self.differences: dict[tuple[str, str, str], Difference] = {}
        self.failed: list[str] = []

    def look(self, audits: RollingAudits, changed: Mapping[str, Collection[str]]) -> Counter[str]:
        """One look, counted before and noted after it; how many records of each entity were compared. An entity that
        cannot be read makes room for the others, and its pass goes on later where it was."""
        now, before, looks = clock.now_ms(), audits.looks(), []
        audits.count_requests(REQUESTS, now)
        calls = self._org.session.calls
        for entity, with_window in self._chosen(audits, changed):
            last = before.get(entity, LastComparison(entity, 0))
            try:
                looks.append(self._look_at(last, sorted(changed.get(entity, ()))[:CHANGED], with_window=with_window))
            except SfcdcError as error:
                self.failed.append(f"{entity}: {error}")
                looks.append(replace(last, at_ms=now, ended_pass=with_window, compared=0))
        audits.note(looks, self._org.session.calls - calls - REQUESTS, now)
        return Counter({each.entity: each.compared for each in looks})

    def _chosen(self, audits: RollingAudits, changed: Mapping[str, Collection[str]]) -> list[tuple[str, bool]]:
        """Return the entity whose turn it is, for a window; and one with a suspicion that can be decided now, or else
        the one of which most was changed."""
        looks = audits.looks()
        turn = whose_turn(self._built, audits.passes_ended(), audits.windows(), clock.now_ms())
        decidable = [
            entity
            for entity, each in looks.items()
            if entity in self._built and any(self._is_decidable(entity, one) for one in each.suspicions)
        ]
        busiest = sorted((entity for entity in changed if entity in self._built), key=lambda each: -len(changed[each]))
        beside = next((entity for entity in [*decidable, *busiest] if entity != turn), None)
        return [(turn, True)] + ([(beside, False)] if beside else [])

    def _look_at(self, before: LastComparison, changed: Sequence[str], *, with_window: bool) -> LastComparison:
        """Compare the entity's records of a window, those changed, and those under suspicion."""
        entity, channel, now = before.entity, self._built[before.entity], clock.now_ms()
        table = CurrentState.open(self._warehouse, entity)
        described = next(
            (each.describe for each in reversed(self._schemas.of_entity(entity)) if each.describe is not None), None
        )
        if table is None or described is None:
            return replace(before, at_ms=now, ended_pass=with_window, compared=0)
        erased = erased_records(self._warehouse)
        suspected = [each.record_id for each in before.suspicions if not erased.keeps_out(each.record_id)]
        changed = [each for each in changed if not erased.keeps_out(each)]
        window, ours, up_to = self._window(table, before.up_to_id) if with_window else (None, [], before.up_to_id)
        found: list[Difference] = []
        if window is not None:
            theirs = self._ids_in_org(entity, window)
            found += one_sided(entity, sorted(theirs - set(ours)), MISSING)
        record_ids = sorted({*suspected, *changed, *ours})
        columns = columns_of_table(self._schemas, entity, table.schema, self._privacy)
        compared = compare_ids(
            self._org.session, table, entity, record_ids, columns, described, table.applied(channel) or 0
        )
        uncertain = compared.suspected | compared.unreadable
        found += [each for each in compared.differences if each.record_id not in uncertain]
        suspicions = self._suspicions(before, found, now)
        done = len(set(record_ids) - uncertain)
        return replace(
            before,
            at_ms=now,
            up_to_id=up_to,
            ended_pass=with_window and not up_to,
            compared=done,
            suspicions=suspicions,
        )

    def _suspicions(self, before: LastComparison, found: Sequence[Difference], now_ms: int) -> tuple[Suspicion, ...]:
        """Return what is suspected from now on. What was so at an earlier look that can be decided now is a difference;
        it stays among the suspicions until it is healed."""
        known = {(each.record_id, each.what, each.in_org): each for each in before.suspicions}
        kept = []
        for difference in {(each.record_id, each.field, each.kind): each for each in found}.values():
            what, in_org = difference.field or difference.kind, _hash(difference.in_org)
            earlier = known.get((difference.record_id, what, in_org))
            if earlier is not None and self._is_decidable(before.entity, earlier):
                self.differences[before.entity, difference.record_id, what] = difference
            kept.append(earlier or Suspicion(difference.record_id, what, in_org, now_ms))
        return tuple(sorted(kept, key=lambda each: each.at_ms)[:MOST_SUSPICIONS])

    def _is_decidable(self, entity: str, suspicion: Suspicion) -> bool:
        if entity not in self._until_ms:
            self._until_ms[entity] = self._landed_until(entity)
        return suspicion.at_ms < self._until_ms[entity]

    def _landed_until(self, entity: str) -> int:
        channel = self._built[entity]
        until = self._landed_until_ms.get(channel, 0)
        if not (until and is_polled(channel)):
            return until
        note = self._polls.get(entity)
        how = outcome_of(readability_of, self._warehouse, entity, note)
        return min(until, seen_through_ms(note, how)) if note is not None and isinstance(how, Readability) else 0

    @cached_property
    def _polls(self) -> Mapping[str, PollNote]:
        return read_poll_notes(self._warehouse)

    def _window(self, table: CurrentState, lower: str) -> tuple[IdWindow, list[str], str]:
        """Return the window that begins at an Id, its live records, and where the next one begins, which is always
        further on; empty: from the start.

        It ends where a file begins, or with the `WINDOW`th live record. Files that another client wrote may overlap and
        begin anywhere: a window that is too small takes in twice as many of them.
        """
        begins = table.beginnings(lower)
        taken = 1
        while True:
            upper = begins[taken - 1] if taken <= len(begins) else None
            living = table.first_living(IdWindow(lower or None, upper), WINDOW + 1)
            if len(living) > WINDOW:
                upper, living = living[WINDOW], living[:WINDOW]
            if upper is None or 2 * len(living) >= WINDOW:
                return IdWindow(lower or None, upper), living, upper or ""
            taken *= 2

    def _ids_in_org(self, entity: str, window: IdWindow) -> set[str]:
        condition = where_all(window.condition, self._org.condition_of(entity, self._built[entity]))
        rows = query_rows(self._org.session, f"SELECT Id FROM {entity}{condition}")
        erased = erased_records(self._warehouse)
        return {each for row in islice(rows, 2 * WINDOW) if not erased.keeps_out(each := str(row["Id"]))}


def _days_for_all(warehouse: Warehouse, built: Mapping[str, str], budget: AuditBudget) -> float | None:
    """Return how long a pass takes at most: a look for each window, and a request an hour for the allowance. Tables
    that cannot be read are left out."""
    if budget.a_day <= 24:
        return None

    def windows(entity: str) -> int:
        table = CurrentState.open(warehouse, entity)
        return 0 if table is None else max(1, -(-table.table.count() // WINDOW))

    counts = of_readable(windows, list(built), warehouse.looks_at_once).values()
    return days_for_all([each for each in counts if each], (budget.a_day - 24) / REQUESTS)


def _hash(value: str | None) -> str:
    return "" if value is None else hashlib.sha256(value.encode()).hexdigest()[:16]
