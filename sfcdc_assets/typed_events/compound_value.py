"""The parts of an address or a geolocation that comes as one value.

A notification names the parts as the object does and leaves out those that are empty; the answer of a query names them
by themselves (`city`, `postalCode`; REST API Developer Guide, "Compound Address Fields" and "Compound Geolocation
Field"):

    {"BillingCity": "Oslo"}                        BillingCity
    {"city": "Oslo", "stateCode": null, ...}       BillingCity, BillingStateCode
    {"latitude": 59.9, "longitude": 10.7}          Loc__Latitude__s, Loc__Longitude__s
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def parts_in(value: Mapping[str, Any] | None, parts: Iterable[str]) -> dict[str, Any]:
    """The values of these fields of the object in a compound value; null for one that it does not have."""
    members = value or {}
    return {part: next((members[name] for name in members if _is(name, part)), None) for part in parts}


def _is(member: str, part: str) -> bool:
    return member == part or part.lower().removesuffix("__s").endswith(member.lower())
