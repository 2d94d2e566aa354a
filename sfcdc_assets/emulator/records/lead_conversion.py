"""Lead conversion: account, contact, opportunity and the lead itself, in this order (docs/salesforce-streams.md, "Lead
conversion"). A lead without a company becomes a person account.

The lead's update is the org's own: its LastModifiedDate stays, so its event carries Status, IsConverted, ConvertedDate
(a date) and the ids of what it became, and no audit field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from sfcdc_assets.emulator.errors import RecordError
from sfcdc_assets.emulator.org.transaction import StoredValue
from sfcdc_assets.emulator.records.person_account import NAME_PARTS
from sfcdc_assets.runtime.times import utc

if TYPE_CHECKING:
    from sfcdc_assets.emulator.records.dml import Dml

CONVERTED_STATUS = "Closed - Converted"
_ADDRESS = ("Street", "City", "State", "PostalCode", "Country", "Latitude", "Longitude", "GeocodeAccuracy")
_TO_ACCOUNT: Mapping[str, str] = {
    "Company": "Name", "Phone": "Phone", "Fax": "Fax", "Website": "Website", "Industry": "Industry",
    "AnnualRevenue": "AnnualRevenue", "NumberOfEmployees": "NumberOfEmployees", "Rating": "Rating",
    "LeadSource": "AccountSource", "OwnerId": "OwnerId", **{part: f"Billing{part}" for part in _ADDRESS},
}  # fmt: skip
_TO_CONTACT: Mapping[str, str] = {
    "Salutation": "Salutation", "FirstName": "FirstName", "LastName": "LastName", "Title": "Title", "Phone": "Phone",
    "MobilePhone": "MobilePhone", "Fax": "Fax", "Email": "Email", "LeadSource": "LeadSource",
    "Description": "Description", "HasOptedOutOfEmail": "HasOptedOutOfEmail", "OwnerId": "OwnerId",
    **{part: f"Mailing{part}" for part in _ADDRESS},
}  # fmt: skip
_TO_PERSON: Mapping[str, str] = {
    **{source: target for source, target in _TO_ACCOUNT.items() if source != "Company"},
    **{
        source: target if target in (*NAME_PARTS, "Phone", "Fax", "Description", "OwnerId") else f"Person{target}"
        for source, target in _TO_CONTACT.items()
        if source not in _ADDRESS
    },
}


@dataclass(frozen=True)
class ConvertedLead:
    """What a lead became; ids of 18 characters. No opportunity if none was wanted."""

    lead_id: str
    account_id: str
    contact_id: str
    opportunity_id: str | None


def convert_lead(
    unit_of_work: Dml,
    lead_id: str,
    *,
    account_id: str | None = None,
    contact_id: str | None = None,
    opportunity: bool = True,
    opportunity_name: str | None = None,
    status: str = CONVERTED_STATUS,
) -> ConvertedLead:
    """Convert a live lead; an account or contact that is named is used as it is. Raises RecordError."""
    lead = unit_of_work.live_record("Lead", lead_id)
    if lead["IsConverted"]:
        raise RecordError("CANNOT_UPDATE_CONVERTED_LEAD", "cannot reference converted lead")
    if contact_id is not None and account_id is None:
        raise RecordError("INVALID_OPERATION", "a contact can only be named together with its account")
    if account_id is None:
        # Without a company it becomes a person, whose contact comes with the account.
        names = _TO_ACCOUNT if lead["Company"] else _TO_PERSON
        account_id = unit_of_work.create("Account", _mapped(unit_of_work, "Account", lead, names))
    account = unit_of_work.live_record("Account", account_id)
    account_id = str(account["Id"])
    if contact_id is None and account.get("IsPersonAccount"):
        contact_id = str(account["PersonContactId"])
    if contact_id is None:
        values = _mapped(unit_of_work, "Contact", lead, _TO_CONTACT)
        contact_id = unit_of_work.create("Contact", {**values, "AccountId": account_id})
    else:
        contact_id = str(unit_of_work.live_record("Contact", contact_id)["Id"])
    today = utc(unit_of_work.timestamp).date()
    opportunity_id = None
    if opportunity:
        values = {
            "AccountId": account_id,
            "Name": opportunity_name or f"{str(lead['Company'] or lead['LastName'])[:119]}-",
            "StageName": "Prospecting",
            "CloseDate": end_of_quarter(today).isoformat(),
            "LeadSource": lead.get("LeadSource"),
            "OwnerId": lead["OwnerId"],
        }
        known = unit_of_work.fields("Opportunity")
        opportunity_id = unit_of_work.create(
            "Opportunity", {name: value for name, value in values.items() if name in known}
        )
    result: dict[str, StoredValue] = {
        "Status": status,
        "IsConverted": True,
        "ConvertedDate": today.isoformat(),
        "ConvertedAccountId": account_id,
        "ConvertedContactId": contact_id,
        "ConvertedOpportunityId": opportunity_id,
    }
    unit_of_work.set_read_only("Lead", lead_id, result, touch=False)
    return ConvertedLead(str(lead["Id"]), account_id, contact_id, opportunity_id)


def end_of_quarter(day: date) -> date:
    """Return the last day of a day's quarter, by which the new opportunity is to be closed."""
    last_month = (day.month - 1) // 3 * 3 + 3
    return date(day.year + last_month // 12, last_month % 12 + 1, 1) - timedelta(days=1)


def _mapped(
    unit_of_work: Dml, entity: str, lead: Mapping[str, StoredValue], names: Mapping[str, str]
) -> dict[str, object]:
    """Return the lead's values under the other object's names: those that object has."""
    known = unit_of_work.fields(entity)
    return {
        target: lead[source]
        for source, target in names.items()
        if target in known and lead.get(source) is not None and known[target].createable
    }
