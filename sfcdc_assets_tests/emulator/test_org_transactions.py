from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfcdc_assets.emulator.definitions.field_notation import field_definition
from sfcdc_assets.emulator.definitions.object_file import built_in_definitions
from sfcdc_assets.emulator.errors import NestedTransactionError, RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.transaction import RecordChange, Transaction
from sfcdc_assets.emulator.records.unit_of_work import UnitOfWork


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock)


def commit(org: EmulatedOrg, work: Callable[[UnitOfWork], Any], **options: Any) -> tuple[Any, Transaction | None]:
    with org.transaction(**options) as unit_of_work:
        result = work(unit_of_work)
    return result, unit_of_work.committed


def create(org: EmulatedOrg, entity: str = "Account", **values: Any) -> str:
    defaults = {"Account": {"Name": "Acme"}, "Contact": {"LastName": "Kaya"}}.get(entity, {})
    return str(commit(org, lambda work: work.create(entity, {**defaults, **values}))[0])


def only_change(transaction: Transaction | None) -> RecordChange:
    assert transaction is not None
    (change,) = transaction.changes
    return change


def test_a_transaction_is_logged_as_listeners_heard_it(org: EmulatedOrg, clock: ManualClock) -> None:
    heard: list[Transaction] = []
    org.subscribe_commits(heard.append)
    clock.advance(1_999)
    record_id, transaction = commit(
        org, lambda work: work.create("Account", {"Name": " Acme ", "Industry": "Energy"}), change_origin="here"
    )
    change = only_change(transaction)
    assert (change.change_type, change.record_id, change.before) == ("CREATE", record_id, None)
    assert change.after is not None
    assert (change.after["Name"], change.after["OwnerId"]) == ("Acme", org.users.integration)
    assert transaction is not None
    assert transaction.commit_timestamp == change.after["SystemModstamp"] == clock() // 1000 * 1000
    assert (transaction.commit_user, transaction.change_origin) == (org.users.integration, "here")
    assert heard == [transaction] == list(org.transactions())


def test_commit_numbers_grow_and_the_log_can_be_read_on(org: EmulatedOrg) -> None:
    for _ in range(450):
        create(org)
    numbers = [transaction.commit_number for transaction in org.transactions()]
    assert len(numbers) == 450
    assert numbers == sorted(set(numbers))
    assert [transaction.commit_number for transaction in org.transactions(after=numbers[200])] == numbers[201:]
    assert org.last_commit_number == numbers[-1]


def test_create_and_update_in_one_transaction_is_one_create_with_final_values(org: EmulatedOrg) -> None:
    def work(unit_of_work: UnitOfWork) -> None:
        record_id = unit_of_work.create("Account", {"Name": "Acme"})
        unit_of_work.update("Account", record_id, {"Name": "Ajax"})

    change = only_change(commit(org, work)[1])
    assert change.change_type == "CREATE"
    assert change.after is not None
    assert change.after["Name"] == "Ajax"
    assert change.changed_fields == ()


def test_create_and_delete_in_one_transaction_is_nothing(org: EmulatedOrg) -> None:
    def work(unit_of_work: UnitOfWork) -> None:
        unit_of_work.delete("Account", unit_of_work.create("Account", {"Name": "Acme"}))

    assert commit(org, work)[1] is None
    assert list(org.transactions()) == []


def test_update_and_delete_in_one_transaction_is_a_delete(org: EmulatedOrg) -> None:
    record_id = create(org)

    def work(unit_of_work: UnitOfWork) -> None:
        unit_of_work.update("Account", record_id, {"Name": "Ajax"})
        unit_of_work.delete("Account", record_id)

    change = only_change(commit(org, work)[1])
    assert (change.change_type, change.after) == ("DELETE", None)


def test_an_update_names_what_changed_and_not_what_was_set_to_the_same(org: EmulatedOrg, clock: ManualClock) -> None:
    record_id = create(org, Industry="Energy", Rating="Hot")
    clock.advance(5_000)
    _, transaction = commit(
        org,
        lambda work: work.update("Account", record_id, {"Industry": "Energy", "Rating": None, "BillingCity": "Bonn"}),
    )
    change = only_change(transaction)
    assert change.changed_fields == ("BillingCity", "Rating", "LastModifiedDate")
    assert change.before is not None
    assert change.after is not None
    assert (change.before["Rating"], change.after["Rating"]) == ("Hot", None)
    assert list(org.transactions())[-1] == transaction


def test_an_update_that_changes_nothing_still_touches_the_record(org: EmulatedOrg, clock: ManualClock) -> None:
    record_id = create(org, Rating="Hot")
    later = clock.advance(3_000)
    change = only_change(commit(org, lambda work: work.update("Account", record_id, {"Rating": "Hot"}))[1])
    assert change.changed_fields == ("LastModifiedDate",)
    record = org.record("Account", record_id)
    assert record is not None
    assert record["SystemModstamp"] == record["LastModifiedDate"] == later


def test_the_modifying_user_is_in_the_change_only_if_it_is_another(org: EmulatedOrg) -> None:
    record_id = create(org)
    other = org.users.automated_process
    first = only_change(commit(org, lambda work: work.update("Account", record_id, {}), user_id=other)[1])
    again = only_change(commit(org, lambda work: work.update("Account", record_id, {}), user_id=other)[1])
    assert "LastModifiedById" in first.changed_fields
    assert "LastModifiedById" not in again.changed_fields


def test_a_change_by_the_org_itself_leaves_last_modified_alone(org: EmulatedOrg, clock: ManualClock) -> None:
    record_id = create(org)
    clock.advance(9_000)
    change = only_change(
        commit(org, lambda work: work.update("Account", record_id, {"BillingLatitude": 1.5}, touch=False))[1]
    )
    assert change.changed_fields == ("BillingLatitude",)


def test_delete_and_undelete_move_a_record_to_the_recycle_bin_and_back(org: EmulatedOrg) -> None:
    record_id = create(org, Rating="Hot")
    assert only_change(commit(org, lambda work: work.delete("Account", record_id))[1]).change_type == "DELETE"
    assert (org.count("Account"), org.count("Account", include_deleted=True)) == (0, 1)
    back = only_change(commit(org, lambda work: work.undelete("Account", record_id))[1])
    assert back.change_type == "UNDELETE"
    assert back.after is not None
    assert back.after["Rating"] == "Hot"
    assert [record["Id"] for record in org.records("Account")] == [record_id]


def test_emptying_the_recycle_bin_raises_nothing_but_a_hard_delete_of_a_live_record_does(org: EmulatedOrg) -> None:
    binned, live = create(org), create(org)
    commit(org, lambda work: work.delete("Account", binned))
    assert commit(org, lambda work: work.hard_delete("Account", binned))[1] is None
    assert only_change(commit(org, lambda work: work.hard_delete("Account", live))[1]).change_type == "DELETE"
    assert list(org.records("Account", include_deleted=True)) == []


def test_a_merge_deletes_the_losers_with_their_master_and_touches_the_master(org: EmulatedOrg) -> None:
    master, loser = create(org), create(org)
    _, transaction = commit(org, lambda work: work.merge("Account", master, (loser,)))
    assert transaction is not None
    assert [(change.record_id, change.change_type, change.master_record_id) for change in transaction.changes] == [
        (loser, "DELETE", master),
        (master, "UPDATE", None),
    ]
    assert list(org.transactions())[-1] == transaction


def test_a_roll_up_changes_its_parent_in_the_same_transaction(org: EmulatedOrg) -> None:
    account = create(org)
    opportunity = {"Name": "Deal", "StageName": "Prospecting", "CloseDate": "2025-02-01", "AccountId": account}
    _, transaction = commit(org, lambda work: work.create("Opportunity", {**opportunity, "Amount": 10.005}))
    assert transaction is not None
    assert [(change.entity, change.change_type) for change in transaction.changes] == [
        ("Opportunity", "CREATE"),
        ("Account", "UPDATE"),
    ]
    assert "Pipeline__c" in transaction.changes[1].changed_fields
    assert (org.record("Account", account) or {})["Pipeline__c"] == 10.01


@pytest.mark.parametrize(
    ("entity", "values", "code"),
    [
        ("Account", {"Name": "A", "Nope": 1}, "INVALID_FIELD"),
        ("Account", {"Name": "A", "Id": "001000000000001"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("Account", {"Name": "A", "CreatedDate": "2025-01-01T00:00:00Z"}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("Account", {"Name": "A", "BillingAddress": {}}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("Account", {"Name": "A", "Revenue_Per_Employee__c": 1}, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("Account", {}, "REQUIRED_FIELD_MISSING"),
        ("Account", {"Name": " "}, "REQUIRED_FIELD_MISSING"),
        ("Account", {"Name": "x" * 256}, "STRING_TOO_LONG"),
        ("Account", {"Name": "A", "CleanStatus": "Spotless"}, "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST"),
        ("Account", {"Name": "A", "ParentId": "nonsense"}, "MALFORMED_ID"),
        ("Account", {"Name": "A", "ParentId": "001000000000001"}, "INVALID_CROSS_REFERENCE_KEY"),
        ("Account", {"Name": "A", "ParentId": "003000000000001"}, "FIELD_INTEGRITY_EXCEPTION"),
        ("Account", {"Name": 5}, "JSON_PARSER_ERROR"),
        ("Account", {"Name": "A", "NumberOfEmployees": "many"}, "JSON_PARSER_ERROR"),
        ("Account", {"Name": "A", "NumberOfEmployees": 2**31}, "NUMBER_OUTSIDE_VALID_RANGE"),
        ("Account", {"Name": "A", "Is_Partner__c": "maybe"}, "JSON_PARSER_ERROR"),
        ("Account", {"Name": "A", "SLAExpirationDate__c": "2025-02-30"}, "JSON_PARSER_ERROR"),
        ("Account", {"Name": "A", "Next_Review__c": "2025-02-03T10:00:00"}, "JSON_PARSER_ERROR"),
        ("Account", {"Name": "A", "Next_Review__c": 10**30}, "NUMBER_OUTSIDE_VALID_RANGE"),
        ("Contact", {"LastName": "A", "Email": "not an address"}, "INVALID_EMAIL_ADDRESS"),
    ],
)
def test_a_wrong_record_is_refused_and_leaves_nothing(
    org: EmulatedOrg, entity: str, values: dict[str, Any], code: str
) -> None:
    with pytest.raises(RecordError) as caught, org.transaction() as work:
        work.create(entity, values)
    assert caught.value.error_code == code
    assert list(org.records(entity, include_deleted=True)) == []
    assert list(org.transactions()) == []


def test_values_are_stored_in_one_canonical_form(org: EmulatedOrg) -> None:
    record_id = create(
        org,
        AnnualRevenue="12",
        Credit_Limit__c=1.005,
        Regions__c="West;North;West",
        SLAExpirationDate__c="2025-02-03T00:00:00Z",
        Next_Review__c="2025-02-03T10:00:00.250+0200",
        Support_Opens__c="09:30:00Z",
        Phone="",
    )
    record = org.record("Account", record_id)
    assert record is not None
    assert {name: record[name] for name in ("AnnualRevenue", "Credit_Limit__c", "Regions__c", "Phone")} == {
        "AnnualRevenue": 12.0, "Credit_Limit__c": 1.01, "Regions__c": "North;West", "Phone": None,
    }  # fmt: skip
    assert record["SLAExpirationDate__c"] == "2025-02-03"
    assert record["Next_Review__c"] == 1_738_569_600_250
    assert record["Support_Opens__c"] == "09:30:00.000"


def test_a_deleted_record_cannot_be_changed(org: EmulatedOrg) -> None:
    record_id = create(org)
    commit(org, lambda work: work.delete("Account", record_id))
    for change in (
        lambda work: work.update("Account", record_id, {"Name": "B"}),
        lambda work: work.delete("Account", record_id),
    ):
        with pytest.raises(RecordError) as caught:
            commit(org, change)
        assert caught.value.error_code == "ENTITY_IS_DELETED"


def test_a_unique_value_can_be_there_once_whatever_its_case(org: EmulatedOrg) -> None:
    record_id = create(org, External_Key__c="Key-1")
    with pytest.raises(RecordError) as caught:
        create(org, External_Key__c="KEY-1")
    assert caught.value.error_code == "DUPLICATE_VALUE"
    commit(org, lambda work: work.update("Account", record_id, {"External_Key__c": "key-1"}))


def test_an_exception_rolls_the_whole_transaction_back(org: EmulatedOrg) -> None:
    heard: list[Transaction] = []
    org.subscribe_commits(heard.append)

    def work(unit_of_work: UnitOfWork) -> None:
        unit_of_work.create("Account", {"Name": "A"})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        commit(org, work)
    assert (list(org.records("Account")), list(org.transactions()), heard) == ([], [], [])


def test_what_a_listener_writes_commits_or_fails_with_the_transaction(org: EmulatedOrg) -> None:
    org.database.execute("CREATE TABLE heard (number INTEGER)")

    def listener(transaction: Transaction) -> None:
        org.database.execute("INSERT INTO heard VALUES (?)", (transaction.commit_number,))
        if transaction.changes[0].after and transaction.changes[0].after["Name"] == "bad":
            raise ValueError("refused")

    org.subscribe_commits(listener)
    create(org)
    with pytest.raises(ValueError, match="refused"):
        create(org, Name="bad")
    assert org.database.rows("SELECT number FROM heard") == [(org.last_commit_number,)]
    assert org.count("Account") == 1


def test_a_transaction_inside_another_is_refused(org: EmulatedOrg) -> None:
    with pytest.raises(NestedTransactionError), org.transaction(), org.transaction():
        pass
    create(org)


def test_an_org_in_a_folder_goes_on_where_it_stopped(tmp_path: Path, clock: ManualClock) -> None:
    org = EmulatedOrg(tmp_path, clock=clock, seed=7)
    first = create(org)
    log, organization = list(org.transactions()), org.organization_id
    org.close()
    again = EmulatedOrg(tmp_path, clock=clock)
    assert (again.seed, again.organization_id, list(again.transactions())) == (7, organization, log)
    assert create(again) > first
    again.close()


def test_the_same_seed_gives_the_same_org(clock: ManualClock) -> None:
    one, other = (EmulatedOrg(clock=clock, seed=3) for _ in range(2))
    for org in (one, other):
        org.populate({"Account": 50, "Contact": 50}, seed=1)
        create(org)
    assert list(one.records("Contact")) == list(other.records("Contact"))
    assert list(one.transactions()) == list(other.transactions())


def test_day_0_data_is_valid_and_raises_no_events(org: EmulatedOrg) -> None:
    heard: list[Transaction] = []
    org.subscribe_commits(heard.append)
    added = org.populate(200, seed=5)
    assert set(added) == set(org.definitions)
    assert (heard, list(org.transactions())) == ([], [])
    for name, definition in org.definitions.items():
        records = list(org.records(name))
        assert len(records) >= 200
        assert [record["Id"] for record in records] == sorted(record["Id"] for record in records)
        for field in definition.stored_fields:
            assert field.nillable or all(record[field.name] is not None for record in records), (name, field.name)
    pipeline = sum(record["Pipeline__c"] or 0 for record in org.records("Account"))
    owned = sum(r["Amount"] or 0 for r in org.records("Opportunity") if r["AccountId"])
    assert pipeline == pytest.approx(owned)
    with org.transaction() as work:  # what is there can be written back
        for record in list(org.records("Account"))[:50]:
            account = org.definitions["Account"]
            values = {f.name: record[f.name] for f in account.stored_fields if f.updateable}
            work.update("Account", str(record["Id"]), values)


def test_a_field_can_be_added_renamed_and_dropped_while_the_org_runs(org: EmulatedOrg) -> None:
    record_id = create(org, Site="Bonn", Sic="12")
    account = org.definitions["Account"]
    fields = [
        replace(field, name="Place__c", custom=True) if field.name == "Site" else field
        for field in account.fields
        if field.name != "Sic"
    ]
    fields.append(field_definition("Account", "Colour__c", {"type": "picklist", "values": ["Red"]}))
    org.replace_definition(account.with_fields(tuple(fields)), {"Site": "Place__c"})
    commit(org, lambda work: work.update("Account", record_id, {"Colour__c": "Red"}))
    record = org.record("Account", record_id)
    assert record is not None
    assert (record["Place__c"], record["Colour__c"], record["Revenue_Per_Employee__c"]) == ("Bonn", "Red", None)
    assert "Sic" not in record
    assert built_in_definitions()[0].fields_by_name["Sic"]
