"""Addresses and geolocations that come as one value are taken apart, in both forms that Salesforce has."""

from __future__ import annotations

from typing import Any

import pytest

from sfcdc_assets.event_channels.messages import parts_in

BILLING = ["BillingStreet", "BillingCity", "BillingState", "BillingStateCode", "BillingLatitude"]


@pytest.mark.parametrize(
    ("value", "parts", "wanted"),
    [
        ({"BillingCity": "Oslo"}, BILLING, {"BillingCity": "Oslo"}),
        ({"city": "Oslo", "state": None, "stateCode": "03", "latitude": 59.9}, BILLING,
         {"BillingCity": "Oslo", "BillingStateCode": "03", "BillingLatitude": 59.9}),
        ({"state": "Viken", "stateCode": None}, BILLING, {"BillingState": "Viken"}),
        ({"city": "Oslo", "street": "A"}, ["City", "Street"], {"City": "Oslo", "Street": "A"}),
        ({"latitude": 1.5, "longitude": -2.5}, ["Loc__Latitude__s", "Loc__Longitude__s"],
         {"Loc__Latitude__s": 1.5, "Loc__Longitude__s": -2.5}),
        ({"Loc__Latitude__s": 1.5}, ["Loc__Latitude__s", "Loc__Longitude__s"], {"Loc__Latitude__s": 1.5}),
        (None, ["City"], {}),
        ({}, ["City"], {}),
    ],
)  # fmt: skip
def test_every_part_has_its_value_or_null(
    value: dict[str, Any] | None, parts: list[str], wanted: dict[str, Any]
) -> None:
    assert parts_in(value, parts) == dict.fromkeys(parts) | wanted
