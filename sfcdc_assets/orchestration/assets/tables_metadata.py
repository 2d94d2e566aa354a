"""What is reported of an entity's tables as a batch has left them: versions, rows, columns and a few rows of each.

Nearly all of it is known to who has just committed the batch, through the handles that it was committed with; so it is
taken there, beside the commits of other entities, and no table is opened again for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sfcdc_assets.apply.batch_commit import ApplyReport
from sfcdc_assets.apply.entity_tables import EntityTables
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.tables import history, text_fields
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.schemas import Schemas
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.object_description import ObjectDescription
from sfcdc_assets.schema_evolution.table_columns import newest_describe


@dataclass(frozen=True)
class TableLook:
    """One table: its Delta version, all its rows, its columns, and a few of the rows that count."""

    version: int
    rows: int
    schema: pa.Schema
    sample: pa.Table

    @classmethod
    def of(cls, table: Table, sample: pa.Table) -> TableLook:
        """Look at an open table, of which `sample` are some rows."""
        return cls(table.version, table.count(), table.schema, sample)


@dataclass(frozen=True)
class TablesLook:
    """All four, after the batch that left `current_state` at its version; what the org calls the object."""

    text_fields: TableLook
    gap_reconciliation: TableLook
    current_state: TableLook
    history: TableLook
    described: ObjectDescription | None


def look_of_batch(report: ApplyReport, tables: EntityTables, sample_rows: int) -> TablesLook:
    """Through the handles that the batch was committed with; `sample_rows`: so many of each table."""
    return _look(
        sample_rows,
        report,
        tables.texts.table,
        tables.history.table,
        tables.ledger,
        tables.current_state,
        tables.schemas,
    )


def look_again(warehouse: Warehouse, report: ApplyReport, sample_rows: int) -> TablesLook:
    """Look at tables that are opened for it; the batch has made those that were not there."""
    texts, versions = (
        text_fields.open_or_create(warehouse, report.entity),
        history.open_if_there(warehouse, report.entity),
    )
    ledger, state = Ledger.open_or_create(warehouse, report.entity), CurrentState.open(warehouse, report.entity)
    assert versions is not None, report.entity
    assert state is not None, report.entity
    return _look(sample_rows, report, texts.table, versions.table, ledger, state, Schemas(warehouse))


def _look(
    count: int,
    report: ApplyReport,
    texts: Table,
    versions: Table,
    ledger: Ledger,
    state: CurrentState,
    schemas: Schemas,
) -> TablesLook:
    return TablesLook(
        TableLook.of(texts, texts.newest("position", f"position <= {report.to_position}", count)),
        TableLook.of(ledger.table, ledger.head_of_open(count)),
        TableLook.of(state.table, state.newest_rows(count)),
        TableLook.of(versions, versions.newest("_position", f"_superseded_at <= {report.to_position}", count)),
        newest_describe(schemas.of_entity(report.entity)),
    )
