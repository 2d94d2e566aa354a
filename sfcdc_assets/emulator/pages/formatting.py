"""Times and numbers as the pages write them. Times are UTC, as in events."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup, escape


def moment(milliseconds: int) -> str:
    """`2026-11-22 05:12:33 UTC`."""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock_time(milliseconds: int) -> str:
    """`05:12:33`."""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%H:%M:%S}"


def number(value: int | float) -> str:
    """Write a number with commas between thousands; whole where it is whole."""
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def age(milliseconds: int) -> str:
    """`12 s`, `3 min`, `5 h` or `2 d`; nothing lies in the future."""
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def code(text: str) -> Markup:
    """Text of the program's own with its `names` in the type of code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
