"""Objects whose names are words of SQL: `Case`, `Order`, `Group` must stand in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable


def quoting_remedy(statement: str, names: Iterable[str]) -> str:
    """What to do where a statement names such a view without quotes; empty where it does not."""
    found = [each for each in names if re.search(rf'(?i)\b(?:from|join)\s+{re.escape(each)}\b(?!")', statement)]
    reserved = [each for each in found if each in RESERVED]
    listed = " and ".join(f'"{each}"' for each in reserved)
    return f"Write {listed} in double quotes: the name is a word of SQL." if reserved else ""


RESERVED = frozenset({"case", "order", "group", "table", "column", "end", "grant", "references", "using", "select"})
