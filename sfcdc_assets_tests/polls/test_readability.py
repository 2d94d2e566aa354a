"""How objects can be read, by their names and what describe says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sfcdc_assets.polls.known_objects import ALL_FIELDS, KNOWN_OBJECTS, ParentKey
from sfcdc_assets.polls.readability import NotPollable, Readability, readability, refusal_of_query
from sfcdc_assets.polls.stamp import Stamp
from sfcdc_assets.salesforce.object_description import ObjectDescription

SYSTEM_MODSTAMP = Stamp("SystemModstamp")


def described(name: str, *fields: str) -> ObjectDescription:
    each: list[dict[str, Any]] = [{"name": field, "type": "string"} for field in ("Id", *fields)]
    return ObjectDescription.from_json({"name": name, "fields": each})


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (described("Account", "SystemModstamp"), Readability(SYSTEM_MODSTAMP)),
        (described("CaseStatus", "SystemModstamp"), Readability(SYSTEM_MODSTAMP, no_bulk=True)),
        (described("TabDefinition", "Label"), Readability(None)),
        (described("AsyncApexJob", "CreatedDate"), Readability(Stamp("CreatedDate"), ALL_FIELDS)),
        (described("ApexTestQueueItem", "CreatedDate"), Readability(Stamp("CreatedDate"), ALL_FIELDS)),
        (described("AccountHistory", "CreatedDate"), Readability(Stamp("CreatedDate"))),
        (described("Invoice__History", "CreatedDate"), Readability(Stamp("CreatedDate"))),
        (described("LoginHistory", "LoginTime"), Readability(Stamp("LoginTime"))),
        (described("ActivityFieldHistory", "CreatedDate"), Readability(Stamp("CreatedDate"), no_bulk=True)),
        (described("AccountShare", "LastModifiedDate"), Readability(Stamp("LastModifiedDate"))),
        (described("Contract", "Status", "SystemModstamp"), Readability(SYSTEM_MODSTAMP, ("Status",))),
        (
            described("ContentDocumentLink", "ContentDocumentId", "SystemModstamp"),
            Readability(None, no_bulk=True, parent=ParentKey("ContentDocumentId", "ContentDocument")),
        ),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_each_object_is_read_as_it_can_be(description: ObjectDescription, expected: Readability) -> None:
    assert readability(description) == expected


@pytest.mark.parametrize(
    ("description", "reason", "instead"),
    [
        (described("FieldDefinition", "SystemModstamp"), "name the part", "`fields`"),
        (described("OutgoingEmail"), "written only", "poll EmailMessage"),
        (described("Archive__b", "CreatedDate"), "big object", "export it"),
        (replace(described("Odd"), queryable=False), "does not let it be queried", "SFCDC_POLL"),
        (replace(described("Odd"), fields=()), "no Ids", "SFCDC_POLL"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_cannot_be_read_is_refused_with_the_reason_and_what_to_do(
    description: ObjectDescription, reason: str, instead: str
) -> None:
    with pytest.raises(NotPollable, match=reason) as refused:
        readability(description)
    assert instead in str(refused.value)


def test_what_the_org_says_to_a_query_of_one_record_is_about_the_object_or_it_is_not() -> None:
    found = refusal_of_query("Odd", "EXTERNAL_OBJECT_UNSUPPORTED_EXCEPTION", "Getting all Odds is unsupported")
    assert "Getting all Odds is unsupported" in str(found)
    assert refusal_of_query("Odd", "QUERY_TIMEOUT", "it took too long") is None


def test_each_row_about_an_object_says_something_of_it() -> None:
    for each in KNOWN_OBJECTS:
        assert bool(each.refused) == bool(each.instead), each.names
        assert each.refused or each.no_bulk or each.parent or each.unstamped or each.not_worth_it, each.names
