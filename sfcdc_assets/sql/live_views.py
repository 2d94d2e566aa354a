"""Views that follow the newest cut by themselves: what they read is looked for each time they are asked.

They have the names of those of `sfcdc sql`, without those of `raw_events` and of other tables that no cut names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sfcdc_assets.lake.delta.readable_table import ReadableTable, readable_now
from sfcdc_assets.lake.tables import current_state
from sfcdc_assets.salesforce.object_shape import PICKLIST_VALUES, RECORD_TYPES
from sfcdc_assets.sql.cut_connection import CUT, LAGGING
from sfcdc_assets.sql.cut_links import FILES, CutLinks
from sfcdc_assets.sql.entity_views import View, entity_views, label_views, names_view, users_view, view
from sfcdc_assets.sql.tables_of_cuts import TablesOfCuts
from sfcdc_assets.sql.text import literally, name, no_row, value
from sfcdc_assets.sql.users import USER, name_of_user

SHOWN = "sfcdc_shown"
GONE = (
    "The views were not written for so long, or this transaction is so old, that the files of its cut may be gone. "
    "Begin a new transaction; sfcdc views --live writes the views."
)


class LiveTables:
    """The tables of the newest cuts that live views read: opened once, for the links and for the views."""

    def __init__(self, tables: TablesOfCuts) -> None:
        # A token stands for one cut, so what changes are reported from is not part of views that move on.
        self._of = {entity: replace(tables.of(entity), changes=None) for entity in tables.shown}
        pointed_to = {each for of in self._of.values() for lookup in of.lookups.values() for each in lookup.objects}
        found = {each: tables.named(each) for each in sorted(pointed_to - {USER})}
        self._named = {entity: named for entity, named in found.items() if named is not None}
        values, types = (
            readable_now(tables.warehouse, each.name) if tables.labels else None
            for each in (PICKLIST_VALUES, RECORD_TYPES)
        )
        self._labels = (values, types) if tables.labels else None

    @property
    def all(self) -> Iterator[ReadableTable]:
        """Each of them once."""
        for of in self._of.values():
            yield from of.tables.values()
            yield from (each for each in (of.formulas, of.earlier_formulas) if each is not None)
        yield from (each for each in self._labels or () if each is not None)

    def views(self, links: CutLinks) -> Iterator[View]:
        """Yield the views in the order in which they are to be created."""
        rows = partial(_rows, links)
        yield view(SHOWN, _shown(str(links.shown)))
        for called, file in ((CUT, links.cuts), (LAGGING, links.lagging)):
            newest = f"number = (SELECT any_value(number) FROM {SHOWN})"
            yield view(called, f"SELECT * EXCLUDE (number) FROM {_read(str(file))} WHERE {newest}")
        user = self._of[USER].tables.get(current_state.LAYER) if USER in self._of else None
        yield users_view(user, name_of_user(user.schema) if user is not None else None, rows)
        if self._labels is not None:
            yield from label_views(*self._labels, rows)
        for entity, (table, expression) in self._named.items():
            yield names_view(entity, table, expression, rows)
        for of in self._of.values():
            yield from entity_views(of, rows)


def _shown(file: str) -> str:
    """Return the tables of the cut that is shown to this transaction."""
    read = _read(file)
    newest = f"SELECT CASE WHEN max(number) IS NULL THEN error({value(GONE)}) ELSE max(number) END FROM {read}"
    return f"SELECT * FROM {read} WHERE number = ({newest} WHERE shown_from <= now())"


def _rows(links: CutLinks, table: ReadableTable) -> str:
    """Return the rows of the files that are shown. DuckDB opens no others: it knows them by their folder."""
    folder, pattern = links.pattern(table.name)
    files = value(f"{literally(folder)}/{pattern}")
    read = f"read_parquet({files}, union_by_name = true, hive_partitioning = true, hive_types = {{{FILES}: VARCHAR}})"
    part = "true"
    if table.up_to is not None and table.ends_at is not None:
        before = f"f._batch >= s.rolled_back_in OR f.{name(table.ends_at)} <= s.rolled_back_to"
        part = f"f._batch <= s.batch AND (s.rolled_back_in IS NULL OR {before})"
    # Of one row, so that DuckDB looks for the folder first and then opens its files alone.
    shown = ", ".join(f"any_value({each}) AS {each}" for each in (FILES, "batch", "rolled_back_in", "rolled_back_to"))
    shown = f"SELECT {shown} FROM {SHOWN} WHERE {name('table')} = {value(table.name)}"
    found = f"SELECT f.* EXCLUDE ({FILES}) FROM {read} AS f JOIN ({shown}) AS s ON f.{FILES} = s.{FILES} WHERE {part}"
    chosen = ", ".join(map(name, table.schema.names))
    return f"SELECT {chosen} FROM ({no_row(table)} UNION ALL BY NAME {found})"


def _read(file: str) -> str:
    return f"read_parquet({value(literally(file))})"
