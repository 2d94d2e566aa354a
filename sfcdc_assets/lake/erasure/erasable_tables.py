"""Where a record may lie: every table of a warehouse that may have a row of it, and which of their rows those are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from sfcdc_assets.change_events.columns import SALESFORCE_TYPE_METADATA
from sfcdc_assets.formulas.dependencies import Lookup
from sfcdc_assets.lake.delta.data_files import DataFile
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.erasure.naming_rows import (
    NamingRows,
    events_of_record,
    messages_about,
    quarantined_about,
    rows_of_record,
    suspicions_about,
)
from sfcdc_assets.lake.tables import (
    current_state,
    earlier_formula_values,
    formula_values,
    gap_reconciliation,
    history,
    push_topic_state,
    quarantine,
    raw_events,
    rolling_audits,
    snapshots,
    text_fields,
)
from sfcdc_assets.lake.tables.companions import columns_of_parent, companions_of
from sfcdc_assets.lake.tables.current_state import conditions_on_ids
from sfcdc_assets.lake.tables.entity_checkpoint import BATCH, BUILT_AT
from sfcdc_assets.lake.tables.event_table import event_table_names
from sfcdc_assets.lake.tables.formula_referrers import EVER, Path, paths_of_all, referrers
from sfcdc_assets.lake.tables.raw_event_files import files_by_channel
from sfcdc_assets.lake.tables.rows_by_id import WRITER
from sfcdc_assets.lake.warehouse import Warehouse

Records = Mapping[str, frozenset[str]]
"""Entity -> Ids, of 18 characters."""

SOURCES = (snapshots.LAYER, gap_reconciliation.LAYER)
OF_FORMULAS = (earlier_formula_values.LAYER, formula_values.LAYER)
BUILT = (text_fields.LAYER, history.LAYER, current_state.LAYER, *OF_FORMULAS)
"""Layers of an entity: what its tables are built from, and what is built."""


@dataclass(frozen=True)
class Erasable:
    """A table, or one partition of it (a folder), and its rows that name the records. `fence`: transactions of its
    writers, with the versions that they have: committed again, they have every writer refused that opened the table
    before. `notes`: transactions that say that rows are gone. `is_built`: it is built from others."""

    table: str
    rows: NamingRows
    folder: str = ""
    fence: Callable[[Table], Mapping[str, int]] = lambda _: {}
    notes: Callable[[Table], Mapping[str, int]] = lambda _: {}
    is_built: bool = False

    def has(self, file: DataFile) -> bool:
        """Return whether a file lies in it."""
        return file.path.startswith(self.folder) or f"/{self.folder}" in file.path


def erasable_tables(warehouse: Warehouse, records: Records) -> Iterator[Erasable]:
    """Yield every table that may name the records: what others are built from first, `current_state` after what goes
    with it."""
    every = frozenset().union(*records.values())
    # Where its events stand is known until raw_events forgets it.
    yield Erasable(quarantine.NAME, quarantined_about(every, _places(warehouse, records)))
    for entity, ids in records.items():
        yield Erasable(raw_events.NAME, events_of_record(ids), f"entity_name={entity}/", _of_channels)
        for layer in SOURCES:
            column = "Id" if layer == snapshots.LAYER else "record_id"
            fence = _of_reads if layer == snapshots.LAYER else _of_nobody
            yield Erasable(f"{layer}/{entity}", rows_of_record(column, ids), fence=fence)
    yield Erasable(rolling_audits.NAME, suspicions_about(every))
    for name in event_table_names(warehouse):
        yield Erasable(name, messages_about(every), fence=_of_channels)
    for topic in warehouse.entities(push_topic_state.LAYER):
        yield Erasable(f"{push_topic_state.LAYER}/{topic}", rows_of_record("Id", every), fence=_of_anybody)
    for other in warehouse.entities(formula_values.LAYER):
        if referring := _referring(warehouse, other, every):
            rows = rows_of_record("Id", referring)
            for layer in OF_FORMULAS:
                yield Erasable(f"{layer}/{other}", rows, fence=_of_formulas, is_built=True)
    for entity, ids in records.items():
        for layer in BUILT:
            column = "record_id" if layer == text_fields.LAYER else "Id"
            fence = _of_formulas if layer in OF_FORMULAS else _of_batches
            notes = _of_consumers if layer == current_state.LAYER else _of_nobody
            yield Erasable(f"{layer}/{entity}", rows_of_record(column, ids), fence=fence, notes=notes, is_built=True)


def _again(table: Table, *names: str) -> dict[str, int]:
    return {name: table.transaction_version(name) or 0 for name in names}


def _of_channels(table: Table) -> dict[str, int]:
    """Of landing, which looks for erased records after it has opened the table."""
    return _again(table, *files_by_channel(table)["channel"].unique().sort())


def _of_reads(table: Table) -> dict[str, int]:
    return _again(table, snapshots.PAGES, "refetch")


def _of_batches(table: Table) -> dict[str, int]:
    return _again(table, BATCH)


def _of_consumers(table: Table) -> dict[str, int]:
    """Of those who ask what has changed since a token: no version says that a record is gone, so they begin again."""
    return {BUILT_AT: (table.transaction_version(BUILT_AT) or 0) + 1}


def _of_formulas(table: Table) -> dict[str, int]:
    return _again(table, WRITER)


def _of_anybody(table: Table) -> dict[str, int]:
    """Of writers that any commit refuses."""
    return _again(table, "erased")


def _of_nobody(_: Table) -> dict[str, int]:
    return {}


def _places(warehouse: Warehouse, records: Records) -> frozenset[tuple[str, int]]:
    """Return where the records' events stand: their bodies are in quarantine, if they could not be decoded."""
    table, found = Table.open(warehouse, raw_events.NAME), set[tuple[str, int]]()
    for entity, ids in records.items():
        where = f"entity_name = '{entity}'"
        for rows in table.batches(["channel", "position", "record_ids"], where) if table is not None else ():
            named = pl.DataFrame(rows).explode("record_ids").filter(pl.col("record_ids").is_in(list(ids)))
            found.update(named.select("channel", "position").iter_rows())
    return frozenset(found)


def _referring(warehouse: Warehouse, entity: str, ids: frozenset[str]) -> frozenset[str]:
    """Return the records of an entity whose formulas may show a value of one of these, or did: over the lookups that
    its formulas follow, and over any of its own, as what a formula reads is not always known."""
    own = frozenset[Path]()
    for layer in EVER:
        table = Table.open(warehouse, f"{layer}/{entity}")
        schema = table.schema if table is not None else ()
        own |= {(Lookup(each.name, ""),) for each in schema if _is_lookup(each)}
    return referrers(warehouse, entity, own | paths_of_all(warehouse, entity), ids.__contains__, EVER)


def _is_lookup(field: pa.Field) -> bool:
    return (field.metadata or {}).get(SALESFORCE_TYPE_METADATA) == b"reference"


def with_companions(warehouse: Warehouse, records: Records) -> dict[str, frozenset[str]]:
    """Return the records with those of their histories, feeds and shares that are copied: `ContactHistory` has old
    values of contacts."""
    found: dict[str, set[str]] = defaultdict(set)
    copied = {*warehouse.entities(snapshots.LAYER), *warehouse.entities(current_state.LAYER)}
    for entity, ids in records.items():
        found[entity] |= ids
        for companion in companions_of(entity):
            for layer in (snapshots.LAYER, current_state.LAYER, history.LAYER) if companion in copied else ():
                found[companion] |= _children(warehouse, f"{layer}/{companion}", columns_of_parent(companion), ids)
    return {entity: frozenset(ids) for entity, ids in found.items() if ids}


def _children(warehouse: Warehouse, name: str, columns: Sequence[str], parents: frozenset[str]) -> set[str]:
    table = Table.open(warehouse, name)
    parent = next((each for each in columns if table is not None and each in table.schema.names), None)
    if table is None or parent is None:
        return set()
    rows = (pl.DataFrame(part) for part in table.batches(["Id", parent], "Id is not null"))
    return {each for part in rows for each in part.filter(pl.col(parent).is_in(list(parents)))["Id"].to_list()}


def ids_in_layers(warehouse: Warehouse, entity: str, ids: Collection[str]) -> set[str]:
    """Return those of the ids that the entity's snapshots or its current state have: of nearly all records that is
    all there is to ask."""
    found = set[str]()
    for layer in (current_state.LAYER, snapshots.LAYER):
        table = Table.open(warehouse, f"{layer}/{entity}")
        if table is not None:
            for of_records in conditions_on_ids(sorted(ids)):
                found |= set(table.scan(["Id"], of_records)["Id"].to_pylist())
    return found
