"""JSON from clients, who may send anything."""

from __future__ import annotations

import json
from typing import Any, NoReturn

_MAX_DEPTH = 100
"""Levels, of which no request has more than a few; all that walks a document may go a level down for each."""


def parse_json(text: str | bytes) -> Any:
    """Return the document. Raises ValueError for what is no JSON (NaN and Infinity, which Python reads, are none) or is
    nested too deeply."""
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError(_TOO_DEEP)
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
    return document


_TOO_DEEP = f"it has more than {_MAX_DEPTH} levels"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
