"""Leads become accounts, contacts and opportunities in one transaction."""

from __future__ import annotations

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator, TrafficMix
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client

LEAD = {"FirstName": "Ada", "LastName": "Byron", "Company": "Engines", "City": "London", "Phone": "1"}


def test_a_conversion_is_four_events_of_one_transaction_and_the_lead_is_the_last() -> None:
    watched = WatchedOrg()
    lead_id = watched.create("Lead", **LEAD)
    watched.clock.advance(60_000)
    watched.events()
    watched.commit(lambda work: work.convert_lead(lead_id))
    events = watched.events()
    assert [event.header["entityName"] for event in events] == ["Account", "Contact", "Opportunity", "Lead"]
    assert [event.header["sequenceNumber"] for event in events] == [1, 2, 3, 4]
    assert len({event.header["transactionKey"] for event in events}) == 1
    account, contact, opportunity, lead = events
    assert account.body["Name"] == "Engines"
    assert account.body["BillingAddress"]["City"] == "London"
    assert contact.body["Name"]["FirstName"] == "Ada"
    assert contact.body["AccountId"] == account.header["recordIds"][0]
    assert opportunity.body["AccountId"] == account.header["recordIds"][0]
    assert lead.set_fields == {
        "Status", "IsConverted", "ConvertedDate", "ConvertedAccountId", "ConvertedContactId", "ConvertedOpportunityId",
    }  # fmt: skip
    assert lead.body["ConvertedDate"] % 86_400_000 == 0
    assert lead.header["changedFields"] == watched.bitmap(*lead.set_fields, entity="Lead")


def test_a_conversion_may_use_what_is_there_and_make_no_opportunity() -> None:
    watched = WatchedOrg()
    lead_id, account_id = watched.create("Lead", **LEAD), watched.create()
    contact_id = watched.create("Contact", LastName="x", AccountId=account_id)
    other = watched.create("Lead", **LEAD)
    watched.events()
    watched.commit(lambda work: work.convert_lead(lead_id, account_id=account_id[:15], opportunity=False))
    assert [event.header["entityName"] for event in watched.events()] == ["Contact", "Lead"]
    watched.commit(
        lambda work: work.convert_lead(other, account_id=account_id, contact_id=contact_id, opportunity=False)
    )
    (event,) = watched.events()
    assert event.body["ConvertedAccountId"] == account_id
    with pytest.raises(RecordError, match="converted"):
        watched.commit(lambda work: work.convert_lead(lead_id))
    third = watched.create("Lead", **LEAD)
    with pytest.raises(RecordError, match="account"):
        watched.commit(lambda work: work.convert_lead(third, contact_id=contact_id))


def test_traffic_converts_leads_if_it_is_reported_to() -> None:
    watched = WatchedOrg()
    watched.org.populate(20)
    nothing = dict.fromkeys(
        ("create", "update", "bulk_update", "delete", "undelete", "geocode", "several_objects"), 0.0
    )
    TrafficGenerator(watched.org, 3, TrafficMix(**nothing, convert_lead=1)).run(transactions=10)
    assert sum(bool(lead["IsConverted"]) for lead in watched.org.records("Lead")) == 10


def test_a_lead_without_a_company_becomes_a_person_account() -> None:
    watched = WatchedOrg()
    with pytest.raises(RecordError, match="Company"):
        watched.create("Lead", LastName="Byron")
    watched.org.setup.enable_person_accounts()
    lead_id = watched.create("Lead", FirstName="Ada", LastName="Byron", Email="a@b.example", Phone="1")
    watched.events()
    watched.commit(lambda work: work.convert_lead(lead_id, opportunity=False))
    assert {event.header["entityName"] for event in watched.events()} == {"Account", "Contact", "Lead"}
    (account,), (contact,) = watched.org.records("Account"), watched.org.records("Contact")
    assert account["IsPersonAccount"]
    assert (account["Name"], account["PersonEmail"], account["Phone"]) == ("Ada Byron", "a@b.example", "1")
    assert (account["PersonContactId"], contact["AccountId"]) == (contact["Id"], account["Id"])
    (lead,) = watched.org.records("Lead")
    assert (lead["ConvertedAccountId"], lead["ConvertedContactId"]) == (account["Id"], contact["Id"])


@pytest.mark.parametrize("body", [{"doNotCreateOpportunity": True}, {"createOpportunity": False}])
def test_rest_makes_no_opportunity_where_none_is_wanted(body: dict[str, bool]) -> None:
    watched = WatchedOrg()
    lead_id = watched.create("Lead", **LEAD)
    with rest_client(watched.org) as client:
        answer = client.post(f"/sobjects/Lead/{lead_id}/convert", body).json()
    assert answer["opportunityId"] is None
    assert not list(watched.org.records("Opportunity"))


def test_rest_and_soap_convert_leads() -> None:
    watched = WatchedOrg()
    leads = [watched.create("Lead", **LEAD) for _ in range(2)]
    with rest_client(watched.org) as client:
        answer = client.post(f"/sobjects/Lead/{leads[0]}/convert", {"createOpportunity": False}).json()
        assert answer["leadId"] == leads[0]
        assert answer["opportunityId"] is None
        assert client.post(f"/sobjects/Lead/{leads[0]}/convert").status_code == 400
        assert client.post(f"/sobjects/Lead/{leads[1]}/convert", {"accountId": 3}).status_code == 400
        token = str(client.session.headers["Authorization"]).removeprefix("Bearer ")
        body = (
            '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:p="urn:partner.soap.sforce.com">'
            f"<e:Header><p:SessionHeader><p:sessionId>{token}</p:sessionId></p:SessionHeader></e:Header>"
            f"<e:Body><p:convertLead><p:leadConverts><p:leadId>{leads[1]}</p:leadId><p:opportunityName>Big"
            "</p:opportunityName></p:leadConverts></p:convertLead></e:Body></e:Envelope>"
        )
        text = client.send("POST", "//services/Soap/u/59.0", data=body, headers={"Content-Type": "text/xml"}).text
    assert f"<leadId>{leads[1]}</leadId>" in text
    assert [record["Name"] for record in watched.org.records("Opportunity")] == ["Big"]
