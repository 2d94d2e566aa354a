"""Names and patterns of `SFCDC_POLL`."""

from __future__ import annotations

from collections.abc import Sequence

from sfcdc_assets.polls.polled_objects import PollSettings, polled_objects
from sfcdc_assets.salesforce.describe import ObjectSummary

OBJECTS = (
    ObjectSummary("Account", queryable=True, companion_of=None),
    ObjectSummary("AccountHistory", queryable=True, companion_of="Account"),
    ObjectSummary("AccountShare", queryable=True, companion_of="Account"),
    ObjectSummary("AccountChangeEvent", queryable=False, companion_of=None),
    ObjectSummary("Invoice__c", queryable=True, companion_of=None),
    ObjectSummary("Country__mdt", queryable=True, companion_of=None),
    ObjectSummary("ListViewChartInstance", queryable=False, companion_of=None),
)


def chosen(*poll: str, exclude: Sequence[str] = ()) -> tuple[str, ...]:
    return polled_objects(PollSettings(poll, tuple(exclude)), OBJECTS)


def test_a_name_is_spelt_as_the_org_spells_it_and_an_unknown_one_is_kept() -> None:
    assert chosen("Nothing__c", "ACCOUNT") == ("Account", "Nothing__c")


def test_everything_leaves_out_companions_and_what_holds_no_records() -> None:
    assert chosen("*") == ("Account", "Invoice__c")


def test_a_pattern_of_their_own_takes_companions() -> None:
    assert chosen("*history", "account") == ("Account", "AccountHistory")
    assert chosen("Account*") == ("Account", "AccountHistory", "AccountShare")


def test_what_is_excluded_is_not_polled_though_it_is_named() -> None:
    assert chosen("*", "Account", exclude=["acc*"]) == ("Invoice__c",)
