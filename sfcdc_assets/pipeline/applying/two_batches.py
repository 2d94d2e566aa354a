"""Two batches of an entity in one run, reported as one: what the stream brought, and what was read back on top of it,
or what was too much for one batch."""

from __future__ import annotations

from dataclasses import replace

from sfcdc_assets.pipeline.applying.batch_commit import ApplyReport

_SUMMED = (
    "events",
    "deliveries",
    "duplicates",
    "inserted",
    "updated",
    "deleted",
    "read_back",
    "texts",
    "versions",
    "doubts_healed",
    "key_ranges_written",
    "bytes_written",
    "seconds",
)


def told_as_one(first: ApplyReport, second: ApplyReport) -> ApplyReport:
    """What both did, from where the first began to where the second ended."""
    sums = {name: getattr(first, name) + getattr(second, name) for name in _SUMMED}
    committed = [*(first.committed or ()), *(second.committed or ())]
    opened = dict(first.doubts_opened)
    for reason, count in second.doubts_opened.items():
        opened[reason] = opened.get(reason, 0) + count
    return replace(
        second,
        from_position=first.from_position,
        committed=(min(committed), max(committed)) if committed else None,
        doubts_opened=opened,
        schema_before=first.schema_before,
        **sums,
    )
