"""What must hold of all versions of an entity's records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from typing import Any


def in_order(version: Mapping[str, Any]) -> tuple[int, float, datetime, datetime, int]:
    """Sorts the versions of a record; some are valid for no time of their own, between two of one position."""
    ends, until = version["_superseded_at"], version["_valid_to"] or datetime.max.replace(tzinfo=UTC)
    return version["_position"], inf if ends is None else ends, version["_valid_from"], until, version["_batch"]


def assert_versions_follow(versions: Iterable[Mapping[str, Any]]) -> None:
    """Those of a record neither overlap nor leave a hole, by time and by position, and the last one has no end."""
    of_record: dict[str, list[Mapping[str, Any]]] = {}
    for row in versions:
        of_record.setdefault(row["Id"], []).append(row)
    for record_id, rows in of_record.items():
        rows.sort(key=in_order)
        for one, other in pairwise(rows):
            assert one["_valid_to"] == other["_valid_from"], f"{record_id}: {one} and {other}"
            assert one["_superseded_at"] == other["_position"], f"{record_id}: {one} and {other}"
        assert (rows[-1]["_valid_to"], rows[-1]["_superseded_at"]) == (None, None), record_id
