"""Fields that the client's user may not see."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets_tests.emulator.decoded_events import WatchedOrg
from sfcdc_assets_tests.emulator.rest_server import rest_client


def test_a_hidden_field_does_not_exist_for_rest() -> None:
    org = EmulatedOrg(clock=ManualClock())
    with org.transaction() as work:
        record_id = work.create("Account", {"Name": "a", "Industry": "Energy", "BillingCity": "Lyon"})
    with rest_client(org) as client:
        answer = client.get("/sobjects/Account/describe")
        org.field_security.hide("Account", "Industry")
        org.field_security.hide("Account", "BillingAddress")
        again = client.get("/sobjects/Account/describe", headers={"If-Modified-Since": answer.headers["Last-Modified"]})
        names = {field["name"] for field in again.json()["fields"]}
        assert not names & {"Industry", "BillingAddress", "BillingCity"}
        assert client.query("SELECT Industry FROM Account").json()[0]["errorCode"] == "INVALID_FIELD"
        assert client.query("SELECT Account.Industry FROM Contact").json()[0]["errorCode"] == "INVALID_FIELD"
        assert "Industry" not in client.get(f"/sobjects/Account/{record_id}").json()
        wanted = {"ids": [record_id], "fields": ["Industry"]}
        assert client.post("/composite/sobjects/Account", wanted).json()[0]["errorCode"] == "INVALID_FIELD"
        assert client.post("/sobjects/Account", {"Name": "b", "Industry": "x"}).status_code == 400
        org.field_security.show("Account", "Industry")
        assert client.get(f"/sobjects/Account/{record_id}").json()["Industry"] == "Energy"


@pytest.mark.parametrize("named", [False, True])
def test_events_list_a_hidden_field_and_say_nothing_of_it(named: bool) -> None:
    watched = WatchedOrg(hidden_fields_in_bitmaps=named)
    record_id = watched.create(Industry="Energy")
    watched.org.field_security.hide("Account", "Industry")
    watched.update(record_id, Industry="Banking", Rating="Hot")
    watched.create(Industry="Energy")
    seen, update, creation = watched.events()
    assert seen.body["Industry"] == "Energy"
    assert len({event.stored.schema_id for event in (seen, update, creation)}) == 1
    assert update.body["Industry"] is None
    assert creation.body["Industry"] is None
    changed = ["LastModifiedDate", "Rating", *(["Industry"] if named else [])]
    assert update.header["changedFields"] == watched.bitmap(*changed)
    assert update.header["nulledFields"] == []


def test_enrichment_does_not_show_what_is_hidden() -> None:
    watched = WatchedOrg(enriched_fields={"Account": ("Industry", "Phone")})
    record_id = watched.create(Industry="Energy", Phone="1")
    watched.org.field_security.hide("Account", "Industry")
    watched.update(record_id, Rating="Hot")
    body = watched.events()[-1].body
    assert (body["Industry"], body["Phone"]) == (None, "1")


def test_required_fields_are_seen_by_everybody() -> None:
    org = EmulatedOrg(clock=ManualClock())
    for name in ("Id", "Name", "OwnerId", "LastModifiedDate", "Nonsense"):
        with pytest.raises(RecordError):
            org.field_security.hide("Account", name)


def test_what_is_hidden_stays_hidden_under_a_new_name_and_after_a_restart(tmp_path: Path) -> None:
    org = EmulatedOrg(tmp_path, clock=ManualClock())
    org.field_security.hide("Account", "SLA__c")
    org.setup.rename_field("Account", "SLA__c", "Level__c")
    org.field_security.hide("Account", "Active__c")
    org.setup.drop_field("Account", "Active__c")
    org.close()
    again = EmulatedOrg(tmp_path, clock=ManualClock())
    assert again.field_security.hidden("Account") == {"Level__c"}
    again.close()
