"""Formula fields of an org: what describe, queries, records and events show of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sfcdc_assets.emulator.errors import ObjectDefinitionError, QueryError, RecordError
from sfcdc_assets.emulator.events.event_filter import check_filter
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

NOW = 1_738_584_000_000  # Monday 2025-02-03T12:00:00Z
DAY = 86_400_000
FIELDS = {
    "Owner_Of_Parent__c": {"type": "string", "formula": "Account.Owner.Username & ' / ' & Account.Parent.Name"},
    "Days_Left__c": {"type": "double", "scale": 0, "formula": "CloseDate - TODAY()"},
    "Twice__c": {"type": "currency", "formula": "Amount * 2"},
    "Four_Times__c": {"type": "currency", "formula": "Twice__c * 2"},
    "Of_Account__c": {"type": "currency", "formula": "Account.Revenue_Per_Employee__c"},
    "Is_Large__c": {"type": "boolean", "formula": "Amount > 100"},
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def org(clock: ManualClock) -> Iterator[EmulatedOrg]:
    org = EmulatedOrg(clock=clock, settings=OrgSettings(token_lifetime=30 * DAY))
    for name, options in FIELDS.items():
        org.setup.add_field("Opportunity", name, options)
    yield org
    org.close()


@pytest.fixture
def opportunity(org: EmulatedOrg) -> str:
    with org.transaction() as work:
        parent = work.create("Account", {"Name": "Parent"})
        account = work.create(
            "Account", {"Name": "Child", "ParentId": parent, "AnnualRevenue": 90, "NumberOfEmployees": 4}
        )
        values = {"Name": "O", "StageName": "Prospecting", "CloseDate": "2025-02-10", "Amount": 60}
        return work.create("Opportunity", {**values, "AccountId": account})


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def one(client: RestClient, soql: str) -> dict[str, object]:
    (record,) = client.query(soql).json()["records"]
    return {name: value for name, value in record.items() if name != "attributes"}


def test_a_query_reads_them_over_relationships_and_other_formulas(client, opportunity):
    assert one(client, f"SELECT {', '.join(FIELDS)} FROM Opportunity") == {
        "Owner_Of_Parent__c": "integration@emulator.example / Parent",
        "Days_Left__c": 7,
        "Twice__c": 120,
        "Four_Times__c": 240,
        "Of_Account__c": 22.5,
        "Is_Large__c": False,
    }


def test_a_query_filters_sorts_and_groups_by_them(client, opportunity):
    soql = "SELECT Id FROM Opportunity WHERE Four_Times__c > 239 AND Is_Large__c = FALSE ORDER BY Days_Left__c"
    assert one(client, soql) == {"Id": opportunity}
    assert client.query("SELECT Id FROM Opportunity WHERE Days_Left__c < 7").json()["totalSize"] == 0
    grouped = one(client, "SELECT Owner_Of_Parent__c, SUM(Twice__c) total FROM Opportunity GROUP BY Owner_Of_Parent__c")
    assert grouped["total"] == 120


def test_a_formula_of_a_parent_is_read_over_the_relationship(client, opportunity):
    record = one(client, "SELECT Account.Revenue_Per_Employee__c FROM Opportunity")
    assert record["Account"]["Revenue_Per_Employee__c"] == 22.5


def test_a_bulk_query_reads_them(client, opportunity):
    soql = "SELECT Id, Of_Account__c, Is_Large__c FROM Opportunity"
    job = client.post("/jobs/query", {"operation": "query", "query": soql}).json()
    while client.get(f"/jobs/query/{job['id']}").json()["state"] != "JobComplete":
        pass
    _, row = client.get(f"/jobs/query/{job['id']}/results").text.splitlines()
    assert row == f'"{opportunity}","22.5","false"'


def test_it_is_computed_when_the_record_is_read(org, clock, client, opportunity):
    with org.transaction() as work:
        account = org.record("Opportunity", opportunity)["AccountId"]
        work.update("Account", account, {"AnnualRevenue": 400})
    clock.advance(2 * DAY)
    record = one(client, "SELECT Of_Account__c, Days_Left__c FROM Opportunity")
    assert record == {"Of_Account__c": 100, "Days_Left__c": 5}
    assert client.get(f"/sobjects/Opportunity/{opportunity}").json()["Days_Left__c"] == 5
    assert org.record("Opportunity", opportunity)["Of_Account__c"] == 100
    assert [record["Days_Left__c"] for record in org.records("Opportunity")] == [5]


def test_a_formula_reads_what_the_client_may_not(org, client, opportunity):
    org.field_security.hide("Opportunity", "Amount")
    assert one(client, "SELECT Four_Times__c FROM Opportunity") == {"Four_Times__c": 240}


def test_a_change_of_what_it_reads_is_no_change_of_the_record(org, opportunity):
    before = org.record("Opportunity", opportunity)
    account = before["AccountId"]
    with org.transaction() as work:
        work.update("Account", account, {"AnnualRevenue": 400})
    assert org.record("Opportunity", opportunity)["SystemModstamp"] == before["SystemModstamp"]
    (change,) = list(org.transactions())[-1].changes
    assert (change.entity, change.changed_fields) == ("Account", ("AnnualRevenue", "LastModifiedDate"))


def test_no_event_carries_them(org):
    names = org.definitions["Opportunity"].event_field_names
    assert not set(FIELDS) & set(names)


def test_describe_shows_the_text_and_that_nobody_can_set_it(client):
    fields = {field["name"]: field for field in client.get("/sobjects/Opportunity/describe").json()["fields"]}
    field = fields["Days_Left__c"]
    assert field["calculated"]
    assert field["calculatedFormula"] == "CloseDate - TODAY()"
    assert field["formulaTreatNullNumberAsZero"]
    assert (field["createable"], field["updateable"]) == (False, False)
    assert fields["Amount"]["calculatedFormula"] is None


def test_blanks_are_what_the_definition_says(org, opportunity):
    options = {"type": "currency", "formula": "Account.Credit_Limit__c + Amount"}
    org.setup.add_field("Opportunity", "Zero__c", options)
    org.setup.add_field("Opportunity", "Blank__c", {**options, "blanks": "BlankAsBlank"})
    record = org.record("Opportunity", opportunity)
    assert (record["Zero__c"], record["Blank__c"]) == (60, None)


def test_a_record_without_the_parent_has_blanks(org):
    with org.transaction() as work:
        values = {"Name": "O", "StageName": "Prospecting", "CloseDate": "2025-02-10"}
        alone = work.create("Opportunity", values)
    record = org.record("Opportunity", alone)
    assert (record["Owner_Of_Parent__c"], record["Of_Account__c"], record["Is_Large__c"]) == (" / ", 0, False)


def test_a_field_that_a_formula_reads_can_be_neither_dropped_nor_renamed(org):
    org.setup.add_field("Account", "Score__c", {"type": "double"})
    org.setup.add_field("Contact", "Score_Of_Account__c", {"type": "double", "formula": "ACCOUNT.score__C"})
    with pytest.raises(RecordError, match=r"Account\.Score__c is used by Contact\.Score_Of_Account__c"):
        org.setup.drop_field("Account", "Score__c")
    with pytest.raises(RecordError, match="is used by"):
        org.setup.rename_field("Account", "Score__c", "Other__c")
    org.setup.drop_field("Contact", "Score_Of_Account__c")
    org.setup.drop_field("Account", "Score__c")


@pytest.mark.parametrize("formula", ["Nothing__c", "Account.Nothing__c", "Nobody.Name", "BillingAddress", "$User.Id"])
def test_a_formula_of_fields_that_there_are_not_is_refused(org, formula):
    with pytest.raises(RecordError, match=r"Field .* (does not exist|may not be used)"):
        org.setup.add_field("Account", "New__c", {"type": "string", "formula": formula})


def test_a_formula_that_is_computed_from_itself_is_refused(org):
    with pytest.raises(RecordError, match="computed from itself"):
        org.setup.add_field("Account", "New__c", {"type": "double", "formula": "New__c + 1"})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"type": "currency", "formula": "1 +"}, "Syntax error"),
        ({"type": "currency", "formula": "FOO(1)"}, "Unknown function FOO"),
        ({"type": "picklist", "formula": "'a'"}, "a picklist cannot be a formula"),
        ({"type": "currency", "formula": "1", "sql": "1"}, "remove sql"),
        ({"type": "currency", "formula": "1", "blanks": "zero"}, "BlankAsZero or BlankAsBlank"),
    ],
)
def test_a_wrong_definition_says_what_is_wrong(org, options, reason):
    with pytest.raises(ObjectDefinitionError, match=reason):
        org.setup.add_field("Account", "New__c", options)


def test_relationships_span_at_most_ten(org):
    ten = ".".join(["Parent"] * 10)
    org.setup.add_field("Account", "Far__c", {"type": "string", "formula": f"{ten}.Name"})
    with pytest.raises(RecordError, match="spans more than 10"):
        org.setup.add_field("Account", "Too_Far__c", {"type": "string", "formula": f"{ten}.Parent.Name"})
    with org.transaction() as work:
        last = ""
        for number in range(12):
            last = work.create("Account", {"Name": f"A{number}", **({"ParentId": last} if last else {})})
    assert org.record("Account", last)["Far__c"] == "A1"


def test_a_filter_of_events_cannot_name_one(org):
    with pytest.raises(QueryError, match="formula field Twice__c is not supported"):
        check_filter("Twice__c > 1", org.definitions["Opportunity"])


def test_an_org_keeps_its_formulas_on_disk(tmp_path):
    with_formula = EmulatedOrg(tmp_path, clock=ManualClock(NOW))
    with_formula.setup.add_field("Account", "Twice__c", {"type": "currency", "formula": "AnnualRevenue * 2"})
    with with_formula.transaction() as work:
        account = work.create("Account", {"Name": "A", "AnnualRevenue": 4})
    with_formula.close()
    again = EmulatedOrg(tmp_path, clock=ManualClock(NOW))
    assert again.record("Account", account)["Twice__c"] == 8
    again.close()
