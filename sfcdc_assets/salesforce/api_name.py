"""API names of objects and fields: what may stand in a path of REST, in SOQL and in a folder's name.

Names come from other systems (an event's header, a channel's members, a schema, a describe), so each is checked where
it enters. "API names must begin with a letter and can contain only letters, digits and underscores" (Salesforce Help,
"Field Name"); a namespace and a suffix (`ns__Order__c`) are of the same characters. Two names that differ by case alone
are one name: a field that is deleted and made again may be spelt otherwise, and is found by either spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

API_NAME = r"[A-Za-z][A-Za-z0-9_]{0,254}"
"""As a regular expression that Python and Arrow read alike."""

_NAME = re.compile(API_NAME, re.ASCII)


def is_api_name(name: object) -> bool:
    """Return whether a name has the form of an API name; says nothing about its existence."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def by_any_case(names: Iterable[str]) -> dict[str, str]:
    """Name in lower case -> the name as it is spelt; of several spellings the last."""
    return {name.lower(): name for name in names}
