"""An entity's two tables, batch by batch, without an org: the timeline's own functions, and the commits of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import polars as pl

from sfcdc_assets.changes.entity_changes import EntityChanges, Pair, Since, before_roll_backs
from sfcdc_assets.key_ranges.data_file import write_files
from sfcdc_assets.key_ranges.frames import arrow_frame
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.delta.readable_table import readable
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.roll_backs import noting_roll_back
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets.sql.changes_since import ChangesSource, create_changes_macro
from sfcdc_assets.sql.text import relation, value
from sfcdc_assets.sql.warehouse_files import location_for_others
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import current_state_schema, history_schema
from sfcdc_assets.timeline.versions import with_batches
from sfcdc_assets_tests.timeline.builders import COLUMNS, frame, reads

ENTITY, CHANNEL = "Account", "/data/ChangeEvents"


class Batches:
    """The tables, and the batches that write them."""

    def __init__(self, root: str) -> None:
        self.warehouse = Warehouse(root)

    def apply(
        self,
        changes: Sequence[Mapping[str, Any]] = (),
        *,
        snapshot: tuple[int, Sequence[Mapping[str, Any]]] | None = None,
        read_back: tuple[int, Sequence[Mapping[str, Any]]] | None = None,
        dies: bool = False,
    ) -> None:
        """One batch. A snapshot has a watermark and rows, and is put before the changes; where its watermark lies
        before what is in the tables, they go back to it. `dies`: before the commit that counts."""
        state = CurrentState.open_or_create(self.warehouse, ENTITY, COLUMNS)
        past = history.open_or_create(self.warehouse, ENTITY, COLUMNS)
        before = state.checkpoint(CHANNEL)
        if past.has_leftovers(before):
            state.fence()
            past.clean(before)
        number = before.batch + 1
        rows = arrow_frame(state.table.scan())
        made = Timeline(COLUMNS, rows, number)
        after = replace(before, batch=number, built_at=before.built_at or 1)
        if snapshot is not None:
            watermark, shown = snapshot
            if watermark < before.position:
                ended = f"{before.part(history.ENDS_AT)} and {history.ENDS_AT} > {watermark}"
                made.roll_back(watermark, arrow_frame(past.table.scan(predicate=ended)))
                after = replace(after, rolled_back_in=number, rolled_back_to=watermark)
            made.put(OrgRead(watermark, watermark, snapshot=1), reads(shown))
        if read_back is not None:
            made.put(OrgRead(read_back[0], read_back[0], read_back=1), reads(read_back[1]))
        made.follow(frame(changes))
        after = replace(after, position=max([before.position, *(int(each["position"]) for each in changes)]))
        written = self._write(current_state.LAYER, with_batches(rows, made.rows, number), current_state_schema(COLUMNS))
        past.append(self._write(history.LAYER, made.superseded, history_schema(COLUMNS)), number)
        if dies:
            return
        went_back = after.rolled_back_in == number
        notes = noting_roll_back(state.table, past.table, after, clock.now_ms()) if went_back else {}
        state.commit(written, list(state.files().values()), CHANNEL, after, None, {}, notes)
        if past.has_leftovers(after):
            past.clean(after)

    def _write(self, layer: str, rows: pl.DataFrame, schema: Any) -> list[NewFile]:
        ordered = rows.sort("Id", "_position").to_arrow().cast(schema)
        files = write_files(ordered, self.warehouse.filesystem(f"{layer}/{ENTITY}"))
        return [NewFile(file.path, file.size, file.statistics) for file in files]

    @property
    def pair(self) -> Pair:
        """Both tables as they are."""
        state, past = CurrentState.open(self.warehouse, ENTITY), history.open_if_there(self.warehouse, ENTITY)
        assert state is not None
        return Pair(ENTITY, state.table, past.table if past else None)

    def since(self, token: Since, *, versions: bool = False) -> tuple[list[dict[str, Any]], str]:
        """What has changed."""
        reported, after = EntityChanges(self.warehouse, self.pair).since(token, versions=versions)
        return reported.to_pylist(), after

    def in_sql(self, token: str | None) -> list[dict[str, Any]]:
        """The same by the macro."""
        pair = self.pair
        readable_tables = {current_state.LAYER: readable(pair.rows)}
        if pair.versions is not None:
            readable_tables[history.LAYER] = readable(pair.versions, pair.checkpoint.part(history.ENDS_AT))
        source = ChangesSource(pair.token(None), before_roll_backs(self.warehouse, pair))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            rows = partial(relation, location=partial(location_for_others, self.warehouse))
            connection.execute(create_changes_macro("account", readable_tables, source, rows))
            return connection.sql(f"FROM account_changes_since({value(token)})").to_arrow_table().to_pylist()

    def living(self) -> dict[str, dict[str, Any]]:
        """The records that live, of which more than the Id is known: their fields, and whether they are certain."""
        rows = self.pair.rows.scan(predicate="_change_type is not null and not _is_deleted").to_pylist()
        return {
            row["Id"]: {
                **{name: value for name, value in row.items() if not name.startswith("_")},
                "_certain": not row["_in_doubt"] and row["_certain_fields"] is None,
            }
            for row in rows
        }
