"""Large texts in a batch: diffs become the values they stand for, in order, each proven (guarantee 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sfcdc_assets.text_diff import TextDiffError, reconstruct_text
from sfcdc_assets.timeline.suspect import SUSPECTS, Reason

REBUILT = pl.Schema({"record_id": pl.String, "position": pl.Int64, "column": pl.Int32, "value": pl.String})
NOTHING_REBUILT = pl.DataFrame(schema=REBUILT)


@dataclass(frozen=True)
class Rebuilt:
    """`values`: the full value of each proven diff (`record_id`, `position`, `column`, `value`; null where the text is
    empty, as everywhere in Salesforce); `suspects`: the first
    diff of a record that was not proven. What follows it in that record was not looked at: it waits."""

    values: pl.DataFrame
    suspects: pl.DataFrame


def rebuild_texts(
    changes: pl.DataFrame, known: Mapping[str, Mapping[int, str | None]], names: Sequence[str]
) -> Rebuilt:
    """Apply the diffs of changes to the last known values before them.

    `changes`: every change of the records that have a diff, in position order; `known`: record id -> column index ->
    value before the batch (a column that is missing was never known); `names`: the columns' names, for errors.
    """
    values: list[tuple[str, int, int, str | None]] = []
    suspects: list[dict[str, object]] = []
    current: dict[str, dict[int, str | None]] = {}
    waiting: set[str] = set()
    wanted = ("record_id", "position", "commit_timestamp", "cells", "diff_columns")
    for change in changes.select(wanted).iter_rows(named=True):
        record_id = change["record_id"]
        if record_id in waiting:
            continue
        if record_id not in current:
            current[record_id] = dict(known.get(record_id, {}))
        suspect = _follow(change, current[record_id], values, names)
        if suspect is not None:
            suspects.append(suspect)
            waiting.add(record_id)
    return Rebuilt(pl.DataFrame(values, schema=REBUILT, orient="row"), pl.DataFrame(suspects, schema=SUSPECTS))


def _follow(
    change: Mapping[str, object],
    current: dict[int, str | None],
    values: list[tuple[str, int, int, str | None]],
    names: Sequence[str],
) -> dict[str, object] | None:
    """Bring `current` up to the change, noting rebuilt values; the entry it ends in, if any."""
    diff_columns = change["diff_columns"]
    cells = change["cells"]
    assert isinstance(diff_columns, list)
    assert isinstance(cells, list)
    record_id, position = str(change["record_id"]), int(str(change["position"]))
    for cell in cells:
        column, text = cell["column"], cell["s"]
        if column not in diff_columns:
            current[column] = text
            continue
        known = current.get(column)
        base = known or ""
        if names_its_text(text, base):
            rebuilt = base  # the row was read back after this very change
        else:
            try:
                rebuilt = reconstruct_text(base, text)
            except TextDiffError as error:
                if known is None:
                    return _suspect(
                        change, Reason.BASELESS_DIFF, f"{names[column]}: the value before the diff is not known"
                    )
                return _suspect(change, Reason.UNPROVEN_DIFF, f"{names[column]}: {error}")
        # Salesforce keeps no empty text: a field without one is null.
        current[column] = rebuilt or None
        values.append((record_id, position, column, rebuilt or None))
    return None


def names_its_text(diff: str, text: str) -> bool:
    """Return whether a diff, by the hash it begins with, leads to this very text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() in diff[:200].lower()


def _suspect(change: Mapping[str, object], reason: Reason, detail: str) -> dict[str, object]:
    return {
        "record_id": change["record_id"],
        "reason": reason.value,
        "position": change["position"],
        "commit_timestamp": change["commit_timestamp"],
        "detail": detail,
    }
