"""Records of an entity, by their ids, compared with the org's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.org_reads.compare import EXTRA, MISSING, Difference, different_values, one_sided
from sfcdc_assets.org_reads.records_by_id import read_back
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.salesforce.session import OrgSession

IDS_PER_READ = 2_000
"""What one retrieve of the org takes."""


@dataclass
class Comparison:
    """What differs; records that the table itself does not vouch for, and those that the org does not give."""

    differences: list[Difference] = field(default_factory=list)
    suspected: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)


def compare_ids(
    session: OrgSession,
    table: CurrentState,
    entity: str,
    record_ids: Sequence[str],
    columns: Sequence[Column],
    description: ObjectDescription,
    position: int,
) -> Comparison:
    """Read the records from the org and compare every column that both have. Raises the session's errors."""
    described = description.field_names
    compared = [column.name for column in columns if column.name in described and column.name != "Id"]
    found = Comparison()
    for start in range(0, len(record_ids), IDS_PER_READ):
        some = list(record_ids[start : start + IDS_PER_READ])
        read_at = clock.now()
        read = read_back(session, entity, some, columns, description, position, read_at)
        found.unreadable |= {*read.refused, *read.left}
        theirs = arrow_frame(read.rows).filter(~pl.col("_is_deleted"))
        ours = table.rows_of(some)
        found.suspected |= set(ours.filter(pl.col("_in_doubt"))["Id"].to_list())
        ours = ours.filter(~pl.col("_is_deleted"))
        found.differences += different_values(entity, theirs, ours, compared)
        found.differences += one_sided(entity, theirs.join(ours, on="Id", how="anti")["Id"].to_list(), MISSING)
        found.differences += one_sided(entity, ours.join(theirs, on="Id", how="anti")["Id"].to_list(), EXTRA)
    return found
