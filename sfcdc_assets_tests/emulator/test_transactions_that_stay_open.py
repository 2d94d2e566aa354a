"""Stamps are taken before commits: what a transaction does shows after others with later stamps and higher ids do."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings

MINUTE = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3)


def create(org: EmulatedOrg, name: str) -> str:
    with org.transaction() as work:
        return work.create("Account", {"Name": name})


def stamps(org: EmulatedOrg, entity: str = "Account") -> dict[str, int]:
    return {str(each["Id"]): int(each["SystemModstamp"] or 0) for each in org.records(entity)}


def test_it_shows_after_later_stamps_and_higher_ids(org: EmulatedOrg, clock: ManualClock) -> None:
    held = org.long_transactions.begin()
    first = held.create("Account", {"Name": "first"})
    clock.advance(10 * MINUTE)
    second = create(org, "second")
    assert list(stamps(org)) == [second]
    committed = held.commit()
    found = stamps(org)
    assert first < second
    assert found[second] - found[first] == 10 * MINUTE
    record = org.record("Account", first) or {}
    assert record["CreatedDate"] == record["LastModifiedDate"] == record["SystemModstamp"] == held.started_at
    assert committed is not None
    assert committed.commit_timestamp == clock()
    assert [change.record_id for change in committed.changes] == [first]


def test_each_statement_has_its_own_stamp(org: EmulatedOrg, clock: ManualClock) -> None:
    account = create(org, "old")
    held = org.long_transactions.begin()
    contact = held.create("Contact", {"LastName": "Kaya"})
    clock.advance(MINUTE)
    held.update("Account", account, {"Name": "new"})
    held.update("Contact", contact, {"AccountId": account})
    clock.advance(MINUTE)
    held.commit()
    assert stamps(org)[account] == stamps(org, "Contact")[contact] == held.started_at + MINUTE
    assert (org.record("Contact", contact) or {})["CreatedDate"] == held.started_at


def test_what_it_has_written_is_locked_and_what_it_undoes_leaves_nothing(org: EmulatedOrg, clock: ManualClock) -> None:
    account, other = create(org, "a"), create(org, "b")
    held = org.long_transactions.begin()
    held.update("Account", account, {"Name": "held"})
    with pytest.raises(RecordError, match="UNABLE_TO_LOCK_ROW: unable to obtain exclusive access to this record"):
        create_update(org, account)
    create_update(org, other)
    with pytest.raises(RecordError, match="UNABLE_TO_LOCK_ROW"):
        org.long_transactions.begin().update("Account", account, {"Name": "x"})
    before = stamps(org)
    clock.advance(MINUTE)
    held.roll_back()
    assert stamps(org) == before
    create_update(org, account)
    with pytest.raises(RecordError, match="has ended"):
        held.commit()


def create_update(org: EmulatedOrg, record_id: str) -> None:
    with org.transaction() as work:
        work.update("Account", record_id, {"Phone": "1"})


def test_a_statement_that_is_wrong_is_refused_at_once_and_does_not_count(org: EmulatedOrg) -> None:
    held = org.long_transactions.begin()
    with pytest.raises(RecordError, match="REQUIRED_FIELD_MISSING"):
        held.create("Account", {})
    with pytest.raises(RecordError, match="NOT_FOUND"):
        held.create("Nothing__c", {})
    held.create("Account", {"Name": "good"})
    held.commit()
    assert org.count("Account") == 1


def test_one_that_has_a_time_is_committed_by_whoever_comes_then(org: EmulatedOrg, clock: ManualClock) -> None:
    held = org.long_transactions.begin(seconds=90)
    record_id = held.create("Account", {"Name": "held"})
    clock.advance(MINUTE)
    other = create(org, "at one minute")
    assert set(stamps(org)) == {other}
    clock.advance(MINUTE)
    create(org, "at two minutes")
    assert [transaction.changes[0].record_id for transaction in org.transactions()][:2] == [other, record_id]
    assert org.long_transactions.open == ()


def test_by_a_setting_every_transaction_has_a_length_and_no_record_goes_back(clock: ManualClock) -> None:
    org = EmulatedOrg(clock=clock, seed=3, settings=OrgSettings(longest_transaction=5 * MINUTE))
    last, found = 0, []
    ids = [create(org, str(number)) for number in range(3)]
    for number in range(40):
        clock.advance(20_000)
        with org.transaction() as work:
            work.update("Account", ids[number % 3], {"Name": f"{number}"})
        (change,) = work.committed.changes if work.committed else ()
        assert change.before is not None
        assert change.after is not None
        assert int(change.after["SystemModstamp"] or 0) >= int(change.before["SystemModstamp"] or 0)
        stamp = int(change.after["SystemModstamp"] or 0)
        assert clock() - 5 * MINUTE - 1000 <= stamp <= clock()
        assert stamp % 1000 == 0
        found.append(stamp < last)
        last = max(last, stamp)
    assert any(found), "some stamp is before one that was seen earlier"
    assert org.long_transactions.complete_until == clock() - 5 * MINUTE


def test_what_a_perfect_poller_would_have_seen_is_known_for_every_moment(org: EmulatedOrg, clock: ManualClock) -> None:
    held = org.long_transactions.begin()
    late = held.create("Account", {"Name": "late"})
    start = clock()
    clock.advance(MINUTE)
    early = create(org, "early")
    clock.advance(MINUTE)
    held.commit()
    clock.advance(MINUTE)
    with org.transaction() as work:
        work.delete("Account", early)
    assert org.seen_at("Account", start) == {}
    assert set(org.seen_at("Account", start + MINUTE)) == {early}
    assert set(org.seen_at("Account", start + 2 * MINUTE)) == {early, late}
    assert set(org.seen_at("Account", clock())) == {late}
