"""Which version of the REST resources to speak: the newest the org offers that this client was tested with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sfcdc_assets.salesforce.errors import UnexpectedAnswer

NEWEST_TESTED = 64.0
OLDEST_USABLE = 59.0
_NUMBER = re.compile(r"\d+\.\d")


def negotiated_version(url: str, offered: Sequence[object]) -> str:
    """`"64.0"` for the answer of `GET /services/data` (`[{"label", "url", "version"}]`).

    Raises `UnexpectedAnswer` when no version from 59.0 to 64.0 is offered.
    """
    numbers = [
        float(entry["version"])
        for entry in offered
        if isinstance(entry, dict) and _NUMBER.fullmatch(str(entry.get("version", "")))
    ]
    usable = [number for number in numbers if OLDEST_USABLE <= number <= NEWEST_TESTED]
    if not usable:
        newest = f"{max(numbers):.1f}" if numbers else "none"
        problem = f"no REST version from {OLDEST_USABLE} to {NEWEST_TESTED} is offered (newest: {newest})"
        raise UnexpectedAnswer(url, problem)
    return f"{max(usable):.1f}"
