"""An org full of nulls, deleted records and texts that look alike, and what SOQL has to know of its objects."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg

NOW = 1_738_584_000_000  # Monday 2025-02-03T12:00:00Z
DAY = 86_400_000
Record = dict[str, Any]

_AUDIT = {"Id": "id", "IsDeleted": "boolean", "CreatedDate": "datetime", "OwnerId": "reference"}
TYPES: Mapping[str, Mapping[str, str]] = {
    "Account": _AUDIT
    | {
        "Name": "string", "Site": "string", "Rating": "picklist", "SLA__c": "picklist", "ParentId": "reference",
        "NumberOfEmployees": "int", "AnnualRevenue": "currency", "Credit_Limit__c": "currency",
        "Discount__c": "percent", "Health_Score__c": "double", "SLAExpirationDate__c": "date",
        "Next_Review__c": "datetime", "Support_Opens__c": "time", "Regions__c": "multipicklist",
        "Is_Partner__c": "boolean", "Billing_Email__c": "email", "Phone": "phone", "Website": "url",
        "BillingStreet": "textarea",
    },
    "Contact": _AUDIT
    | {
        "Name": "string", "FirstName": "string", "LastName": "string", "Title": "string", "AccountId": "reference",
        "ReportsToId": "reference", "Birthdate": "date", "DoNotCall": "boolean", "Level__c": "picklist",
        "EmailBouncedDate": "datetime",
    },
    "Opportunity": _AUDIT
    | {
        "Name": "string", "AccountId": "reference", "ContactId": "reference", "StageName": "picklist",
        "Amount": "currency", "TotalOpportunityQuantity": "double", "CloseDate": "date", "IsPrivate": "boolean",
        "IsWon": "boolean",
    },
    "Task": _AUDIT
    | {
        "Subject": "combobox", "WhatId": "reference", "AccountId": "reference", "ActivityDate": "date",
        "Status": "picklist", "Follow_Up_At__c": "time", "CallDurationInSeconds": "int",
    },
    "User": {
        "Id": "id", "Name": "string", "FirstName": "string", "ManagerId": "reference", "IsActive": "boolean",
        "CreatedDate": "datetime",
    },
}  # fmt: skip
SCALES = {"Credit_Limit__c": 2, "Discount__c": 2, "Health_Score__c": 4, "Amount": 2, "TotalOpportunityQuantity": 2}
PARENTS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Account": {"Parent": ("ParentId", "Account"), "Owner": ("OwnerId", "User")},
    "Contact": {
        "Account": ("AccountId", "Account"), "ReportsTo": ("ReportsToId", "Contact"), "Owner": ("OwnerId", "User"),
    },
    "Opportunity": {
        "Account": ("AccountId", "Account"), "Contact": ("ContactId", "Contact"), "Owner": ("OwnerId", "User"),
    },
    "Task": {"Account": ("AccountId", "Account"), "Owner": ("OwnerId", "User")},
    "User": {"Manager": ("ManagerId", "User")},
}  # fmt: skip
"""By object and relationship: the reference, and the object it leads to."""
CHILDREN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Account": {
        "Contacts": ("Contact", "AccountId"), "Opportunities": ("Opportunity", "AccountId"),
        "ChildAccounts": ("Account", "ParentId"), "Tasks": ("Task", "WhatId"),
    },
    "Contact": {"Opportunities": ("Opportunity", "ContactId")},
}  # fmt: skip
JOINS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "Account": (
        ("Id", "Contact", "AccountId"), ("Id", "Opportunity", "AccountId"), ("OwnerId", "User", "Id"),
        ("ParentId", "Contact", "AccountId"),
    ),
    "Contact": (("AccountId", "Account", "Id"), ("Id", "Opportunity", "ContactId"), ("OwnerId", "User", "Id")),
    "Opportunity": (("AccountId", "Contact", "AccountId"), ("ContactId", "Contact", "Id")),
    "Task": (("AccountId", "Account", "Id"), ("WhatId", "Account", "Id"), ("WhatId", "Opportunity", "Id")),
    "User": (),
}  # fmt: skip
WHATS = {"001": "Account", "006": "Opportunity"}
CHOICES = {
    "Rating": ("Hot", "Warm", "Cold"),
    "SLA__c": ("Gold", "Silver", "Platinum", "Bronze"),
    "Level__c": ("Secondary", "Tertiary", "Primary"),
    "StageName": ("Prospecting", "Qualification", "Needs Analysis", "Closed Won", "Closed Lost"),
    "Status": ("Not Started", "In Progress", "Completed"),
}
"""Values of picklists in the order of the list, as far as records have them."""
TEXTS = (
    "Äpfel", "äpfel", "banana", "Banana", "100%", "a_b", "axb", "O'Neil", "back\\slash", "Zoë", "_under", "[x",
    "two\nlines", "tab\there", "東京 x", 'say "hi"', "x;y", "null", "%", "a", "B",
)  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """All records by object, deleted ones too, in order of Id."""

    org: EmulatedOrg
    records: Mapping[str, list[Record]]
    by_id: Mapping[str, Record]


@cache
def org_facts() -> Facts:
    """One org for all queries of a process: queries change nothing."""
    clock = ManualClock(NOW - 500 * DAY)
    org = EmulatedOrg(clock=clock, seed=14)
    dice = random.Random(14)
    made = _make(org, clock, dice)
    with org.transaction() as work:
        for entity in ("Task", "Opportunity", "Contact", "Account"):
            for record_id in dice.sample(made[entity], len(made[entity]) // 8):
                if org.store.exists(org.definitions[entity], record_id):
                    work.delete(entity, record_id)
    clock.advance(NOW - clock())
    records = {entity: list(org.records(entity, include_deleted=True)) for entity in TYPES}
    for each in records["User"]:
        each["IsDeleted"] = False
    return Facts(org, records, {str(each["Id"]): each for entity in records.values() for each in entity})


def _make(org: EmulatedOrg, clock: ManualClock, dice: random.Random) -> dict[str, list[str]]:
    made: dict[str, list[str]] = {entity: [] for entity in TYPES}
    made["User"].append(org.users.integration)
    for entity, count in (("User", 3), ("Account", 60), ("Contact", 70), ("Opportunity", 50), ("Task", 40)):
        for number in range(count):
            clock.advance(dice.randrange(2 * DAY))
            definition = org.definitions[entity]
            values = _values(entity, number, made, dice)
            given = {name: value for name, value in values.items() if definition.fields_by_name[name].createable}
            with org.transaction() as work:
                made[entity].append(work.create(entity, given))
    return made


def _values(entity: str, number: int, made: Mapping[str, list[str]], dice: random.Random) -> Record:
    required: Record = {
        "Account": {"Name": dice.choice(TEXTS)},
        "Contact": {"LastName": dice.choice(TEXTS)},
        "Opportunity": {"Name": dice.choice(TEXTS), "StageName": "Prospecting", "CloseDate": "2025-02-28"},
        "Task": {"Status": "Completed", "Priority": "High"},
        "User": {
            "Username": f"u{number}@x.example", "LastName": dice.choice(TEXTS), "Email": "u@x.example", "Alias": "u",
        },
    }[entity]  # fmt: skip
    values = {
        name: _value(entity, name, kind, made, dice)
        for name, kind in TYPES[entity].items()
        if name != "Name" or entity == "Account"
    }
    known = {name: value for name, value in values.items() if value is not None and dice.random() < 0.75}
    return required | known


def _value(entity: str, name: str, kind: str, made: Mapping[str, list[str]], dice: random.Random) -> Any:
    if kind == "reference":
        targets = [target for reference, target in PARENTS[entity].values() if reference == name]
        ids = made[dice.choice(targets or ["Account", "Opportunity"])]  # What of a task
        return dice.choice(ids) if ids else None
    if kind in {"int", "double", "currency", "percent"}:
        return dice.choice((0, -1, 1, 5, 1_234_567)) if not SCALES.get(name) else dice.choice((0, -2.5, 0.25, 12.5, 99))
    moment = NOW + dice.choice((0, 1, -1, DAY // 2, -DAY // 2)) + dice.choice((0, 1, -3, 30, -95, 300)) * DAY
    if kind == "date":
        return date_text(moment)
    if kind == "datetime":
        return dice.choice((moment, moment, -1, -86_400_001))
    simple = {
        "picklist": CHOICES.get(name, ()),
        "string": TEXTS,
        "textarea": TEXTS,
        "combobox": ("Call", "call", "Email", "x"),
        "boolean": (True, False),
        "id": (None,),
        "time": ("00:00:00.000Z", "09:05:00.000Z", "12:00:00.000Z", "23:59:59.999Z"),
        "multipicklist": ("North", "East", "North;East", "South;West", "North;South;West"),
        "email": ("a@x.example", "A@X.example", "b@x.example"),
        "phone": ("1", "(1) 2-3", "+1"),
        "url": ("http://x.example", "x.example/%41"),
    }
    value = dice.choice(simple[kind])
    return "Lukewarm" if name == "Rating" and dice.random() < 0.1 else value


def date_text(milliseconds: int) -> str:
    """The day of a moment, UTC."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)).date().isoformat()
