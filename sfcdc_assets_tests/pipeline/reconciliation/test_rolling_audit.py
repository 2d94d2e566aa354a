"""The rolling audit: each run compares something, all is compared in the end, within a budget, without false alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import dagster as dg
import pytest

from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.rolling_audits import Allowance, RollingAudits
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.checks import drift
from sfcdc_assets.org_connection.request_budget import LEAST_ALLOWANCE
from sfcdc_assets.org_connection.run_context import OrgRunContext
from sfcdc_assets.reconciliation import rolling_audit
from sfcdc_assets.reconciliation.audit_budget import audit_budget
from sfcdc_assets.reconciliation.rolling_audit import REQUESTS, RollingReport, look
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.limits import Limit
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.reconciliation.outside_client import deal_out
from sfcdc_assets_tests.pipeline.stepwise import Copy, connected
from sfcdc_assets_tests.pipeline.story import unhealed
from sfcdc_assets_tests.run_contexts import run_on

pytestmark = pytest.mark.slow

MUCH = 50.0
"""A percentage that pays for all looks of a test."""
BUILT = {"Account": CHANNEL}


@pytest.fixture
def copy(synced: EmulatedPipeline) -> Iterator[Copy]:
    """Account, equal to the org."""
    with connected(synced) as opened:
        yield opened


def compare(copy: Copy, *, landed_until_ms: int | None = None, changed: dict[str, Any] | None = None) -> RollingReport:
    """A look when the stream has brought all until a time, by default until now."""
    until = copy.now if landed_until_ms is None else landed_until_ms
    return look(run_of(copy), BUILT, changed or {}, {CHANNEL: until})


def run_of(copy: Copy, percent: float = MUCH) -> OrgRunContext:
    return run_on(copy.warehouse, copy.org, audit_percent=percent)


def silently(copy: Copy, record_id: str, **values: object) -> None:
    """A change of which no event tells."""
    with copy.emulated.database.transaction():
        copy.emulated.store.update(copy.emulated.definitions["Account"], record_id, values)


# -- what is found


def test_windows_go_round_so_that_every_record_is_compared(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_audit, "WINDOW", 7)
    records = len(ids(copy.emulated, "Account"))
    counts = []
    for _ in range(20):
        report = compare(copy)
        counts.append(report.compared["Account"])
        if not RollingAudits(copy.warehouse).looks()["Account"].up_to_id:
            break
        copy.later(600)
    assert sum(counts) == records
    assert max(counts) <= 7
    assert report.days_for_all is not None


@pytest.mark.parametrize("files", [2, 7, 30])
def test_windows_move_on_over_files_that_overlap(copy: Copy, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    monkeypatch.setattr(rolling_audit, "WINDOW", 10)
    deal_out(copy.warehouse, "current_state/Account", files)
    records, counts, ends = len(ids(copy.emulated, "Account")), [], []
    for _ in range(20):
        counts.append(compare(copy).compared["Account"])
        ends.append(RollingAudits(copy.warehouse).looks()["Account"].up_to_id)
        if not ends[-1]:
            break
        copy.later(600)
    assert sum(counts) == records
    assert ends[:-1] == sorted(set(ends[:-1])), "each look begins further on than the one before"
    assert len(counts) <= 2 * records / 10 + 1, "and is worth its requests"


def test_overlapping_files_of_an_entity_keep_no_other_from_being_compared(synced: EmulatedPipeline) -> None:
    with connected(synced) as copy:
        deal_out(copy.warehouse, "current_state/Account", 2)
        compared: Counter[str] = Counter()
        for _ in range(4):
            both = {"Account": CHANNEL, "Contact": CHANNEL}
            compared += look(run_of(copy), both, {}, {CHANNEL: copy.now}).compared
            copy.later(600)
        assert set(compared) == {"Account", "Contact"}


def test_an_entity_of_many_windows_keeps_no_other_from_being_compared(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_audit, "WINDOW", 2)
    both, counts = {"Account": CHANNEL, "Contact": CHANNEL}, Counter[str]()
    with connected(synced) as copy:
        for _ in range(4):
            copy.later(24 * 3600)
            counts += look(run_of(copy), both, {}, {CHANNEL: copy.now}).compared
    assert counts == {"Account": 4, "Contact": 4}


def test_a_window_that_cannot_be_read_once_begins_no_pass_again(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling_audit, "WINDOW", 7)
    with connected(synced) as copy:
        compare(copy)
        reached = RollingAudits(copy.warehouse).looks()["Account"].up_to_id
        copy.later(600)
        synced.org.unreadable_objects.add("Account")
        assert compare(copy).failed
        synced.org.unreadable_objects.clear()
        assert reached
        assert RollingAudits(copy.warehouse).looks()["Account"].up_to_id == reached
        copy.later(600)
        compare(copy)
        assert RollingAudits(copy.warehouse).looks()["Account"].up_to_id > reached


def test_a_table_that_gets_damaged_meanwhile_does_not_end_the_report_of_the_others(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = CurrentState.open.__func__  # type: ignore[attr-defined]

    def damaged(cls: type[CurrentState], warehouse: Warehouse, entity: str) -> CurrentState | None:
        if entity == "Contact":
            raise TableDamaged(f"current_state/{entity}", entity, "a.parquet", "is missing")
        return cast("CurrentState | None", opened(cls, warehouse, entity))

    monkeypatch.setattr(CurrentState, "open", classmethod(damaged))
    report = look(run_of(copy), {"Account": CHANNEL, "Contact": CHANNEL}, {}, {CHANNEL: copy.now}, most_looks=2)
    assert report.compared["Account"] > 0
    assert "damaged" in str(report.failed)
    assert report.days_for_all is not None


def test_what_differs_is_a_difference_when_the_stream_has_had_the_time_to_tell_of_it(copy: Copy) -> None:
    changed, purged = ids(copy.emulated, "Account")[:2]
    silently(copy, changed, Site="no event tells")
    with copy.emulated.database.transaction():
        copy.emulated.store.purge(copy.emulated.definitions["Account"], purged, copy.emulated.clock())
    before = copy.now
    first = compare(copy)
    assert (first.differences, first.suspicions) == ((), 2)
    copy.later(600)
    too_early = compare(copy, landed_until_ms=before - 1)
    assert (too_early.differences, too_early.suspicions) == ((), 2)
    copy.later(600)
    found = compare(copy)
    assert {(each.record_id, each.field) for each in found.differences} == {(changed, "Site"), (purged, None)}
    assert unhealed_of(copy) == [], "a check reports and changes no ledger"


def test_an_event_that_is_on_its_way_is_no_difference(copy: Copy) -> None:
    record_id = ids(copy.emulated, "Account")[0]
    with copy.emulated.transaction() as one:
        one.update("Account", record_id, {"Site": "told of in a moment"})
    assert compare(copy).suspicions >= 1
    copy.catch_up()
    copy.later(600)
    with copy.emulated.transaction() as one:
        one.update("Account", record_id, {"Site": "and changed again"})
    report = compare(copy)
    assert report.differences == ()
    copy.catch_up()
    copy.later(600)
    report = compare(copy)
    assert (report.differences, report.suspicions) == ((), 0)


def test_a_record_that_the_table_lacks_is_found(copy: Copy) -> None:
    copy.pipeline.server.faults.arm(Fault.LOST_EVENT)
    with copy.emulated.transaction() as one:
        created = one.create("Account", {"Name": "of no event"})
    compare(copy)
    copy.later(600)
    (found,) = compare(copy).differences
    assert (found.record_id, found.kind) == (created, "missing in the table")


def test_an_entity_that_cannot_be_read_does_not_keep_the_others_from_being_compared(synced: EmulatedPipeline) -> None:
    with connected(synced) as copy:
        synced.org.unreadable_objects.add("Account")
        both, compared = {"Account": CHANNEL, "Contact": CHANNEL}, set()
        for _ in range(3):
            report = look(run_of(copy), both, {}, {CHANNEL: copy.now})
            compared |= {entity for entity, count in report.compared.items() if count}
            copy.later(600)
    assert compared == {"Contact"}


def test_several_looks_are_made_as_far_as_the_budget_goes(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling_audit, "WINDOW", 7)
    report = look(run_of(copy), BUILT, {}, {CHANNEL: copy.now}, most_looks=6)
    assert report.compared["Account"] >= len(ids(copy.emulated, "Account"))


def unhealed_of(copy: Copy) -> list[Any]:
    return unhealed(copy.pipeline) if (copy.pipeline.warehouse / "gap_reconciliation" / "Account").exists() else []


def test_what_is_changed_all_the_time_is_compared_as_a_whole_in_its_turn(synced: EmulatedPipeline) -> None:
    """To compare records that were changed is no pass over the entity."""
    with connected(synced) as copy:
        both = {"Account": CHANNEL, "Contact": CHANNEL}
        changed, whole = {"Account": ids(synced.org, "Account")[:1]}, set()
        for _ in range(4):
            report = look(run_of(copy), both, changed, {CHANNEL: copy.now})
            whole |= {entity for entity, count in report.compared.items() if count > 1}
            copy.later(600)
    assert whole == {"Account", "Contact"}


# -- the budget


class Told:
    """An org that has so many requests left."""

    def __init__(self, maximum: int, remaining: int) -> None:
        self.asked = 0
        self._limit = Limit(maximum, remaining)

    def api_allowance(self) -> Limit | None:
        self.asked += 1
        return self._limit


def test_the_budget_is_a_share_of_the_allowance_spread_over_the_day(tmp_path: Any) -> None:
    audits, org, now = RollingAudits(Warehouse(str(tmp_path))), Told(100_000, 90_000), clock.now_ms()
    spent = 0
    for number in range(24 * 12):
        at = now + number * 300_000
        budget = audit_budget(audits, org, 0.1, at)  # type: ignore[arg-type]
        assert budget.a_day == 100
        if budget.now >= REQUESTS:
            audits.count_requests(REQUESTS, at)
            spent += REQUESTS
        if number == 11:
            assert spent <= 100 / 24 * 2
    assert org.asked <= 24, "once an hour"
    assert 90 <= spent + org.asked <= 100


def test_of_a_nearly_spent_allowance_nothing_is_taken(tmp_path: Any) -> None:
    audits, now = RollingAudits(Warehouse(str(tmp_path))), clock.now_ms()
    budget = audit_budget(audits, Told(100_000, 15_000), 1.0, now)  # type: ignore[arg-type]
    assert budget.now == 0
    assert "15,000 of 100,000 API requests left" in str(budget.why_not)


def test_what_a_look_may_cost_is_counted_before_it_is_made(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    now = copy.now
    monkeypatch.setattr(rolling_audit._Auditor, "_look_at", dies)
    with pytest.raises(KeyboardInterrupt):
        compare(copy)
    assert RollingAudits(copy.warehouse).requests_since(now - 1) == REQUESTS


def test_an_org_that_does_not_tell_its_allowance_is_taken_for_a_small_one(tmp_path: Any) -> None:
    class Silent:
        def api_allowance(self) -> None:
            return None

    audits, now = RollingAudits(Warehouse(str(tmp_path))), clock.now_ms()
    assert audit_budget(audits, Silent(), 1.0, now).a_day == LEAST_ALLOWANCE // 100  # type: ignore[arg-type]
    assert audits.allowance() == Allowance(LEAST_ALLOWANCE, LEAST_ALLOWANCE, now)


def test_rows_older_than_three_days_are_forgotten(tmp_path: Any) -> None:
    warehouse, now, day = Warehouse(str(tmp_path)), clock.now_ms(), 86_400_000
    for age in (40, 5, 2, 0):
        RollingAudits(warehouse).count_requests(1, now - age * day)
    RollingAudits(warehouse).forget_old(now)
    assert RollingAudits(warehouse).requests_since(0) == 2


def test_zero_percent_switches_it_off(copy: Copy) -> None:
    report = look(run_of(copy, 0.0), BUILT, {}, {CHANNEL: copy.now})
    assert (report.compared, report.requests) == ({}, 0)


# -- what the check says


def test_the_check_warns_where_nothing_was_compared_and_passes_for_a_day_after_something_was(copy: Copy) -> None:
    copy.later(25 * 3600)  # a sync has looked
    off = look(run_of(copy, 0.0), BUILT, {}, {})
    asked = drift.result_of_look(copy.warehouse, off, ["Account"])
    unasked = drift.checked(copy.warehouse, load_settings())
    for result in (asked, unasked, drift.result_of_audit([], ["Account"])):
        assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert asked.metadata["compared_now"].value == "nothing: SFCDC_AUDIT_PERCENT is 0"
    assert drift.result_of_look(copy.warehouse, compare(copy), ["Account"]).passed
    copy.later(23 * 3600)
    assert drift.checked(copy.warehouse, load_settings()).passed
    assert drift.result_of_look(copy.warehouse, off, ["Account"]).passed
    copy.later(2 * 3600)
    assert not drift.checked(copy.warehouse, load_settings()).passed


def test_the_check_warns_where_the_only_entity_could_not_be_read(copy: Copy) -> None:
    unread = replace(compare(copy), compared={"Account": 0}, failed="Account: cannot be read")
    result = drift.result_of_look(copy.warehouse, unread, ["Account"])
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)


# -- in the job


def test_drift_fails_the_check_is_handed_on_by_the_job_and_the_check_passes_when_it_is_healed(
    synced: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SFCDC_AUDIT_PERCENT", "50")
    record_id = ids(synced.org, "Account")[0]
    with synced.org.database.transaction():
        synced.org.store.update(synced.org.definitions["Account"], record_id, {"Site": "no event tells"})
    passed: list[bool] = []
    while len(passed) < 8 and not (False in passed and passed[-1]):
        clock.sleep(900)
        with synced.org.transaction() as one:
            one.update("Account", ids(synced.org, "Account")[5], {"Phone": str(len(passed))})
        synced.settled_tick()
        passed.append(evaluation(synced)["passed"])
    assert False in passed, "the drift is found"
    assert passed[-1], "and healed"
    assert synced.rows("Account")[record_id]["Site"] == "no event tells"
    assert {row["reason"] for row in synced.scan("gap_reconciliation/Account")} == {"drift"}
    assert evaluation(synced)["records_compared"] > 0


def evaluation(pipeline: EmulatedPipeline) -> dict[str, Any]:
    """What `equals_the_org` said last."""
    key = dg.AssetCheckKey(ASSETS.keys.current_state, "equals_the_org")
    (newest,) = pipeline.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert newest.evaluation is not None
    reported = {name: value.value for name, value in newest.evaluation.metadata.items()}
    return {"passed": newest.evaluation.passed, **reported}
