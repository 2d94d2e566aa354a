"""What a user of deltalake would write: a current table by MERGE, and a history in the form of SCD2 beside it.

As the documentation of deltalake has it: `when_matched_update` and `when_not_matched_insert` for the current table; in
the history a MERGE closes the open version of each changed record and an append adds the new one. The pair is given the
changes folded to one row a record, with a flag beside each field that says whether it was set: to decode events and to
fold them is work it is spared.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from sfcdc_assets_tests.benchmarks.large_entity import ENTITY, Change, LargeEntity, record_id
from sfcdc_assets_tests.benchmarks.table_contents import rows_of

VALID_FROM, VALID_TO, IS_SET = "_valid_from", "_valid_to", "is_set_"


class MergePair:
    """The two tables, in a folder where they are already."""

    def __init__(self, folder: Path, names: Sequence[str], row_schema: pa.Schema, *, streamed: bool) -> None:
        """`names`: the fields; `row_schema`: `Id`, these, and `_valid_from`."""
        self.folder, self.names, self.row_schema, self._streamed = folder, names, row_schema, streamed
        self._versions = row_schema.append(pa.field(VALID_TO, row_schema.field(VALID_FROM).type))
        self._current, self._history = str(folder / "current"), str(folder / "history")

    @classmethod
    def like(cls, of: LargeEntity, folder: Path, *, streamed: bool) -> MergePair:
        """A pair with an entity's rows as they are: its files are the entity's own, by another name."""
        pair = cls(folder, of.names, of.row_schema, streamed=streamed)
        # A column that a file lacks is null: every version is open.
        for table, schema in ((pair._current, pair.row_schema), (pair._history, pair._versions)):
            _link(of, table, schema)
        return pair

    @classmethod
    def made(cls, rows: pa.Table, names: Sequence[str], folder: Path) -> MergePair:
        """A pair with these rows, each its record's only version so far."""
        pair = cls(folder, names, rows.schema, streamed=False)
        write_deltalake(pair._current, rows)
        write_deltalake(pair._history, rows.append_column(VALID_TO, pa.nulls(len(rows), rows[VALID_FROM].type)))
        return pair

    def twin(self, folder: Path, *, streamed: bool) -> MergePair:
        """Another pair, with the tables as they are now."""
        shutil.copytree(self.folder, folder, copy_function=os.link)
        return MergePair(folder, self.names, self.row_schema, streamed=streamed)

    def apply(self, changes: pa.Table) -> None:
        """The changes (`folded`) become current, and the versions before them end."""
        whens = {name: f"CASE WHEN s.{IS_SET}{name} THEN s.{name} ELSE t.{name} END" for name in self.names}
        merge = self._merge(self._current, changes, "t.Id = s.Id")
        merge = merge.when_matched_update(whens | {VALID_FROM: f"s.{VALID_FROM}"})
        merge.when_not_matched_insert({name: f"s.{name}" for name in self.row_schema.names}).execute()
        ends = changes.select(["Id", VALID_FROM])
        closing = self._merge(self._history, ends, f"t.Id = s.Id and t.{VALID_TO} is null")
        closing.when_matched_update({VALID_TO: f"s.{VALID_FROM}"}).execute()
        ids = pl.DataFrame(ends.select(["Id"]))
        new = (
            self.current_rows()
            .filter(pl.col("Id").is_between(pl.lit(ids["Id"].min()), pl.lit(ids["Id"].max())))
            .join(ids.lazy(), on="Id", how="semi")
            .with_columns(pl.lit(None, pl.Datetime("us", "UTC")).alias(VALID_TO))
        )
        write_deltalake(self._history, new.collect().to_arrow(), mode="append")

    def current_rows(self) -> pl.LazyFrame:
        return rows_of(self._current, self.row_schema)

    def versions(self) -> pl.LazyFrame:
        return rows_of(self._history, self._versions)

    def clean(self) -> None:
        """Remove the files that the tables have no more: they are gigabytes."""
        for path in (self._current, self._history):
            DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)

    def _merge(self, path: str, rows: pa.Table, on: str):  # type: ignore[no-untyped-def]
        table = DeltaTable(path)
        return table.merge(rows, on, source_alias="s", target_alias="t", streamed_exec=self._streamed)


def _link(of: LargeEntity, folder: str, schema: pa.Schema) -> None:
    """Make a table of the entity's files."""
    Path(folder).mkdir(parents=True)
    made = DeltaTable.create(folder, schema)
    root = Path(of.warehouse.uri(f"current_state/{ENTITY}"))
    adds = []
    for path, file in of.files().items():
        os.link(root / path, Path(folder) / path)
        ends = {"minValues": {"Id": file.statistics["min.Id"]}, "maxValues": {"Id": file.statistics["max.Id"]}}
        statistics = json.dumps({"numRecords": file.rows, **ends, "nullCount": {"Id": 0}})
        adds.append(AddAction(path, file.size, {}, int(time.time() * 1000), True, statistics))
    made.create_write_transaction(adds, "append", made.schema())


def folded(of: LargeEntity, changes: Sequence[Change], times: Sequence[object]) -> pa.Table:
    """Changes of as many records as a MERGE takes them: a row each, with a flag for each field that is set."""
    schema = of.row_schema
    made: dict[str, object] = {"Id": [record_id(number) for number, _ in changes]}
    for name in of.names:
        made[name] = of.array(name, [set_to.get(name) for _, set_to in changes])
        made[IS_SET + name] = [name in set_to for _, set_to in changes]
    made[VALID_FROM] = pa.array(times, schema.field(VALID_FROM).type)
    return pa.table(made)
