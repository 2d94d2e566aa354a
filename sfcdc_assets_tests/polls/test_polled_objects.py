"""Names and patterns of `SFCDC_POLL`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

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
    return polled_objects(PollSettings(poll, tuple(exclude)), OBJECTS).polled


def test_a_name_is_spelt_as_the_org_spells_it_and_an_unknown_one_is_kept() -> None:
    assert chosen("Nothing__c", "ACCOUNT") == ("Account", "Nothing__c")


def test_everything_leaves_out_companions_and_what_holds_no_records() -> None:
    assert chosen("*") == ("Account", "Invoice__c")


def test_a_pattern_of_their_own_takes_companions() -> None:
    assert chosen("*history", "account") == ("Account", "AccountHistory")
    assert chosen("Account*") == ("Account", "AccountHistory", "AccountShare")


def test_what_is_excluded_is_not_polled_though_it_is_named() -> None:
    assert chosen("*", "Account", exclude=["acc*"]) == ("Invoice__c",)


def objects_named(*names: str) -> tuple[ObjectSummary, ...]:
    return tuple(ObjectSummary(name, queryable=True, companion_of=None) for name in names)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("SiteDetail", "a query has to name the part"),
        ("EntityDefinition", "no Ids of their own"),
        ("Reading__b", "big object"),
        ("Stock__x", "another system"),
        ("Rate__mdt", "custom metadata"),
        ("RecentlyViewed", "has looked at"),
    ],
)
def test_what_everything_leaves_out_is_reported_with_the_reason(name: str, why: str) -> None:
    found = polled_objects(PollSettings(("*",)), objects_named("Account", name))
    assert found.polled == ("Account",)
    assert why in found.left_out[name]


def test_what_was_refused_when_it_was_copied_is_left_out_of_patterns_and_kept_where_it_is_named() -> None:
    objects = objects_named("Account", "OddOne")
    refused = {"OddOne": "a query of it has to name what is wanted"}
    assert polled_objects(PollSettings(("*",)), objects, refused).left_out == refused
    assert polled_objects(PollSettings(("oddone",)), objects, refused).polled == ("OddOne",)


def test_what_is_not_worth_it_is_taken_by_a_pattern_of_its_own() -> None:
    objects = objects_named("Account", "EventBusSubscriber")
    assert polled_objects(PollSettings(("*", "EventBus*")), objects).polled == ("Account", "EventBusSubscriber")


def test_what_is_excluded_is_not_reported_as_left_out() -> None:
    objects = objects_named("Account", "SiteDetail")
    assert polled_objects(PollSettings(("*",), ("Site*",)), objects).left_out == {}
