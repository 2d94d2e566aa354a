"""One entity of millions of records, as a warehouse that has run for a while has it, made in seconds, without an org.

Day zero goes through the pipeline, with one record; then the key-range files are written as a task writes them and
committed in the place of that record's. Events are landed as landing writes them, and applied by the pipeline's code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from sfcdc_assets.apply.apply_changes import ApplyReport, ToApply, apply_entity
from sfcdc_assets.change_events.columns import Column, columns
from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.key_ranges.data_file import write_table
from sfcdc_assets.key_ranges.key_ranges import TARGET_BYTES, TARGET_ROWS
from sfcdc_assets.key_ranges.range_rows import RowCounts
from sfcdc_assets.lake.delta.data_files import NewFile
from sfcdc_assets.lake.tables.current_state import CurrentState
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.schemas import EventSchema, Schemas
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.snapshot.pages import MOST_ROWS_PER_PAGE, page_schema
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.timeline.version_columns import current_state_schema
from sfcdc_assets_tests.benchmarks.field_kinds import KINDS, Diff, Kind, arrow_type, text_prefix
from sfcdc_assets_tests.benchmarks.stage import WrongAnswer
from sfcdc_assets_tests.benchmarks.table_contents import bytes_in, rows_of
from sfcdc_assets_tests.change_events.written_event import bitmap_of, described_object, event_schema, header, optional
from sfcdc_assets_tests.run_contexts import run_on

CHANNEL = "/data/ChangeEvents"
ENTITY = "Opportunity"
SCHEMA_ID = "schema of Opportunity"
BEGUN_MS = 1_700_000_000_000
USER = "005Dp000000PpjsIAC"
Change = tuple[int, Mapping[str, Any]]
"""The number of a record and the fields that are set, or all of them for a record that is new; times in ms."""
_FIRST = 100_000
"""Numbers in texts begin with it: a reference has 18 characters then."""
_SECONDS = 300_000_000


class LargeEntity:
    """Its warehouse, and what an outsider must know to say what its tables should hold."""

    events_a_commit = 20_000

    def __init__(
        self,
        warehouse: Warehouse,
        spark: SparkSession | None,
        rows: int,
        fields: int = 29,
        channel: str = CHANNEL,
    ) -> None:
        """Without a `spark` something else stands in the place of its jobs. `channel`: what feeds it; events are landed
        for `CHANNEL` alone."""
        self.warehouse, self.rows, self._spark, self.channel = warehouse, rows, spark, channel
        self.kinds = self._kinds_of(fields)
        self.names = tuple(self.kinds)
        avro = [optional(name, kind.avro, doc=f"Data:{kind.doc}") for name, kind in self.kinds.items()]
        self._schema = event_schema(*avro, entity=ENTITY)
        self._parsed = fastavro.parse_schema(dict(self._schema))
        described = [{"name": name, "type": kind.described} for name, kind in self.kinds.items()]
        self._described = described_object([{"name": "Id", "type": "id"}, *described])
        self.columns: tuple[Column, ...] = columns(self._schema, self._described)
        self.position, self._snapshots = 0, 1
        self._day_zero()
        self._grow()

    def _kinds_of(self, fields: int) -> dict[str, Kind]:
        return {f"Field{n:03}__c": KINDS[n % len(KINDS)] for n in range(fields)}

    def apply(self, spark: SparkSession | None = None) -> ApplyReport:
        """What the pipeline does with what has landed."""
        spark: Any = spark or self._spark
        return apply_entity(run_on(self.warehouse, spark=lambda: spark), ToApply(ENTITY, self.channel))

    def land(self, changes: Sequence[Change]) -> None:
        """One event a change, each a transaction of its own; a record that is not there yet is created."""
        for start in range(0, len(changes), self.events_a_commit):
            rows = [self._event(*change) for change in changes[start : start + self.events_a_commit]]
            raw_events = RawEvents.open(self.warehouse)
            done = replace(raw_events.checkpoint(CHANNEL), position=self.position, complete_position=self.position)
            raw_events.commit(pa.Table.from_pylist(rows, schema=RAW_EVENTS), replace(done, begun="EARLIEST"))
        self.rows = max([self.rows, *(number + 1 for number, _ in changes)])

    def snapshot_again(self) -> None:
        """Every row once more, in pages as they come from the org, with all that has landed as their watermark. To be
        taken when all that has landed is applied."""
        taken = Snapshots.open(self.warehouse, ENTITY)
        assert taken is not None
        progress = SnapshotProgress(
            self._snapshots + 1, ENTITY, CHANNEL, self.position, "job", "next", 0, 0, complete=False,
            started_at_ms=BEGUN_MS, fields=("Id", *self.names),
        )  # fmt: skip
        self._snapshots += 1
        taken.begin(progress)
        schema, root = page_schema(self.columns), self.warehouse.uri(f"current_state/{ENTITY}")
        for path in sorted(self.files()):
            file = pq.read_table(f"{root}/{path}", partitioning=None)
            known = {"_system_modstamp": file["_valid_from"], "_master_record_id": pa.nulls(len(file), pa.string())}
            arrays = [known[field.name] if field.name in known else file[field.name] for field in schema]
            whole = pa.table([array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema)
            for start in range(0, whole.num_rows, MOST_ROWS_PER_PAGE):
                page = whole.slice(start, MOST_ROWS_PER_PAGE)
                done = progress.rows_done + page.num_rows
                progress = replace(progress, pages_done=progress.pages_done + 1, rows_done=done)
                if done == self.rows:
                    progress = replace(progress, complete=True, next_locator=None)
                taken.add_page(page, progress, BEGUN_MS)

    def random_changes(self, records: Sequence[int], dice: np.random.Generator, each: int = 3) -> list[Change]:
        """So many fields of each record are set, a tenth of them to null; records beyond the last one are created."""
        fields = np.argsort(dice.random((len(records), len(self.names))), axis=1)[:, :each]
        values = dice.integers(0, 10**9, (len(records), len(self.names)))
        nulls = dice.random((len(records), each)) < 0.1
        found: list[Change] = []
        for at, number in enumerate(records):
            if number >= self.rows:
                found.append(
                    (number, {name: self._value(name, int(v)) for name, v in zip(self.names, values[at], strict=True)})
                )
                continue
            set_to: dict[str, Any] = {}
            for of, is_null in zip(fields[at], nulls[at], strict=True):
                name = self.names[of]
                set_to[name] = None if is_null else self._value(name, int(values[at, of]))
            found.append((number, set_to))
        return found

    def times_of(self, changes: Sequence[Change]) -> list[datetime]:
        """When the changes will be committed if they are landed next."""
        return [self._time(self.position + at) for at in range(1, len(changes) + 1)]

    def array(self, name: str, values: Sequence[Any]) -> pa.Array:
        """Values of a field, as changes have them, in the type of its column."""
        arrow, plain = self.row_schema.field(name).type, pa.array(values, arrow_type(self.kinds[name]))
        return pc.multiply(plain, 1000).cast(arrow) if pa.types.is_timestamp(arrow) else plain.cast(arrow)

    @property
    def row_schema(self) -> pa.Schema:
        """What a table has that keeps the fields and since when they are valid."""
        whole = current_state_schema(self.columns)
        return pa.schema([whole.field(name).remove_metadata() for name in ("Id", *self.names, "_valid_from")])

    def expected(self, changes: Sequence[Change]) -> tuple[pl.LazyFrame, pl.LazyFrame]:
        """The current rows that the changes of as many records lead to, and the versions they end. To be asked for
        before they are landed, and evaluated before `clean`."""
        before, ids = self.current_rows(), pl.DataFrame({"Id": [record_id(number) for number, _ in changes]})
        news = ids.with_columns(pl.Series("_at", self.times_of(changes), pl.Datetime("us", "UTC")))
        for name in self.names:
            places = [at for at, (_, set_to) in enumerate(changes) if name in set_to]
            values = pl.Series(self.array(name, [changes[at][1][name] for at in places]))
            column = pl.Series([None], dtype=values.dtype).new_from_index(0, len(changes))
            is_set = pl.Series(np.isin(np.arange(len(changes)), places))
            news = news.with_columns((column.scatter(places, values) if places else column).alias(f"new {name}"))
            news = news.with_columns(is_set.alias(f"set {name}"))
        joined = before.join(news.lazy(), on="Id", how="full", coalesce=True)
        chosen = [
            pl.when(pl.col(f"set {name}")).then(pl.col(f"new {name}")).otherwise(pl.col(name)).alias(name)
            for name in self.names
        ]
        rows = joined.select("Id", *chosen, pl.coalesce("_at", "_valid_from").alias("_valid_from"))
        ends = news.lazy().select("Id", pl.col("_at").alias("_valid_to"))
        return rows, before.join(ends, on="Id", how="inner")

    def check(self, expected: Mapping[str, int], found: Mapping[str, int]) -> None:
        """Raises `WrongAnswer` that names the columns that differ."""
        wrong = [name for name in expected if expected[name] != found[name]]
        if wrong:
            raise WrongAnswer(f"{', '.join(wrong)} of {self.warehouse.root} differ from what the events say")

    def written(self) -> int:
        """Bytes of the data files in the tables' folders, committed or not."""
        layers = ("current_state", "history", "text_fields")
        return sum(bytes_in(Path(self.warehouse.uri(f"{layer}/{ENTITY}"))) for layer in layers)

    def clean(self) -> None:
        """Remove the files that the tables have no more: they are gigabytes."""
        uri = self.warehouse.uri(f"current_state/{ENTITY}")
        DeltaTable(uri).vacuum(0, dry_run=False, enforce_retention_duration=False)

    def current_rows(self) -> pl.LazyFrame:
        return rows_of(self.warehouse.uri(f"current_state/{ENTITY}"), self.row_schema)

    def superseded(self) -> pl.LazyFrame:
        schema = self.row_schema.append(pa.field("_valid_to", self.row_schema.field("_valid_from").type))
        return rows_of(self.warehouse.uri(f"history/{ENTITY}"), schema)

    def recent(self, count: int, dice: np.random.Generator, among: int = 80_000) -> list[int]:
        """Numbers of so many of the newest records, one in fifty of them new, in any order."""
        new = count // 50
        among = min(among, self.rows)
        present = dice.choice(np.arange(self.rows - among, self.rows), count - new, replace=False)
        numbers = np.append(present, np.arange(self.rows, self.rows + new))
        return [int(number) for number in dice.permutation(numbers)]

    def anywhere(self, count: int, dice: np.random.Generator) -> list[int]:
        """Numbers of so many records, in any order."""
        return [int(number) for number in dice.choice(self.rows, count, replace=False)]

    def files(self) -> dict[str, Any]:
        """`current_state`'s data files."""
        state = CurrentState.open(self.warehouse, ENTITY)
        assert state is not None
        return state.files()

    def _day_zero(self) -> None:
        Schemas(self.warehouse).add(
            EventSchema(SCHEMA_ID, json.dumps(self._schema), ENTITY, BEGUN_MS, json.dumps(self._described.to_json()))
        )
        taken = Snapshots.open_or_create(self.warehouse, ENTITY, self.columns)
        progress = SnapshotProgress(
            1, ENTITY, self.channel, 0, "job", "next", 0, 0, complete=False, started_at_ms=BEGUN_MS,
            fields=("Id", *self.names),
        )  # fmt: skip
        taken.begin(progress)
        row = {"Id": record_id(0), "_is_deleted": False, "_system_modstamp": self._time(0)}
        done = replace(progress, complete=True, next_locator=None, pages_done=1, rows_done=1)
        taken.add_page(pa.Table.from_pylist([row], schema=page_schema(self.columns)), done, BEGUN_MS)
        raw_events = RawEvents.open(self.warehouse)
        raw_events.commit(RAW_EVENTS.empty_table(), replace(raw_events.checkpoint(self.channel), begun="EARLIEST"))
        self.apply()

    def _grow(self) -> None:
        """Key-range files with all rows in the place of the one row of day zero."""
        state = CurrentState.open(self.warehouse, ENTITY)
        assert state is not None
        step = min(TARGET_ROWS, max(1_000, self._rows_of(TARGET_BYTES)))
        filesystem = self.warehouse.filesystem(f"current_state/{ENTITY}")
        template = self._template(min(step, self.rows))

        def write(start: int) -> tuple[NewFile, RowCounts]:
            rows = self._rows(template, start, min(step, self.rows - start))
            written = write_table(rows, filesystem)
            return NewFile(written.path, written.size, written.statistics), RowCounts.of(rows)

        with ThreadPoolExecutor(2) as pool:
            written = list(pool.map(write, range(0, self.rows, step)))
        added, counts = [file for file, _ in written], RowCounts.sum(of for _, of in written)
        state.commit(added, list(state.files().values()), self.channel, state.checkpoint(self.channel), counts, {})

    def _rows_of(self, size: int) -> int:
        return size // (4 * len(self.columns) + 40)

    def _template(self, count: int) -> pa.Table:
        """Rows but for their Ids. Half of them were changed by events since day zero."""
        dice = np.random.default_rng(1)
        schema = current_state_schema(self.columns)
        made: dict[str, pa.Array] = {}
        for name, kind in self.kinds.items():
            numbers = dice.integers(0, kind.values or 10**9, count)
            field = schema.field(name).type
            if pa.types.is_timestamp(field):
                values = pa.array((BEGUN_MS - numbers % _SECONDS * 1000) * 1000).cast(field)
            elif pa.types.is_string(field):
                values = pc.binary_join_element_wise(
                    text_prefix(kind), pa.array(numbers + _FIRST).cast(pa.string()), ""
                )
            elif pa.types.is_floating(field):
                values = pa.array(numbers / 100 if kind.values == 0 else numbers.astype(float))
            else:
                values = pa.array(numbers).cast(field)
            made[name] = pc.if_else(pa.array(dice.random(count) < 0.9), values, None)
        of_event = pa.array(dice.random(count) < 0.5)
        at = pa.array((BEGUN_MS + dice.integers(0, 10**9, count)) * 1000).cast(pa.timestamp("us", "UTC"))
        digits = pa.array(dice.integers(10**17, 10**18, count)).cast(pa.string())
        key = pc.binary_join_element_wise("000", digits, "-", digits, "")
        named = pa.ListArray.from_arrays(
            pa.array(np.append(0, np.cumsum(np.asarray(of_event))), pa.int32()),
            pa.array([self.names[number % len(self.names)] for number in range(int(np.asarray(of_event).sum()))]),
        )
        made |= {
            "_is_deleted": pa.repeat(False, count),
            "_in_doubt": pa.repeat(False, count),
            "_read_position": pa.repeat(pa.scalar(0, pa.int64()), count),
            "_position": pa.repeat(pa.scalar(0, pa.int64()), count),
            "_commit_timestamp": at,
            "_commit_user": pa.repeat(USER, count),
            "_transaction_key": pc.if_else(of_event, key, None),
            "_valid_from": at,
            "_change_type": pc.if_else(of_event, "UPDATE", "SNAPSHOT"),
            "_changed_fields": pc.if_else(of_event, named, None),
            "_batch": pa.repeat(pa.scalar(1, pa.int64()), count),
        }
        arrays = [made.get(f.name, pa.nulls(count, f.type)) for f in schema]
        return pa.table(
            [a if f.name == "Id" else a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema
        )

    def _rows(self, template: pa.Table, start: int, count: int) -> pa.Table:
        turn = start // 7 % template.num_rows
        rows = pa.concat_tables([template.slice(turn), template.slice(0, turn)]).slice(0, count)
        ids = pa.array([record_id(number) for number in range(start, start + count)])
        return rows.set_column(0, template.schema.field("Id"), ids)

    def _time(self, position: int) -> datetime:
        return datetime.fromtimestamp(BEGUN_MS / 1000 + 1_000_000 + position, UTC)

    def _value(self, name: str, number: int) -> Any:
        kind = self.kinds[name]
        number %= kind.values or 10**9
        match kind.avro:
            case "string":
                return f"{text_prefix(kind)}{number + _FIRST}"
            case "double":
                return number / 100 if kind.values == 0 else float(number)
            case "boolean":
                return bool(number)
            case "long":
                return BEGUN_MS - number % _SECONDS * 1000
        return number

    def _event(self, number: int, set_to: Mapping[str, Any]) -> dict[str, Any]:
        self.position += 1
        position, at = self.position, self._time(self.position)
        is_new = number >= self.rows
        diffs = [name for name, value in set_to.items() if isinstance(value, Diff)]
        key = f"{position:08x}-0000-4000-8000-{position * 2654435761 % 16**12:012x}"
        head = header(
            "CREATE" if is_new else "UPDATE",
            entityName=ENTITY,
            recordIds=[record_id(number)],
            commitTimestamp=int(at.timestamp() * 1000),
            transactionKey=key,
            changedFields=[] if is_new else bitmap_of(self._schema, *(name for name in set_to if name not in diffs)),
            nulledFields=[]
            if is_new
            else bitmap_of(self._schema, *(n for n, value in set_to.items() if value is None)),
            diffFields=bitmap_of(self._schema, *diffs),
        )
        out = pa.BufferOutputStream()
        fastavro.schemaless_writer(out, self._parsed, {"ChangeEventHeader": head, **set_to})
        return {
            "channel": CHANNEL,
            "position": position,
            "replay_id": position.to_bytes(8, "big"),
            "event_id": f"event {position}",
            "schema_id": SCHEMA_ID,
            "payload": out.getvalue().to_pybytes(),
            "entity_name": ENTITY,
            "record_ids": [record_id(number)],
            "change_type": head["changeType"],
            "transaction_key": key,
            "sequence_number": 1,
            "commit_timestamp": at,
            "commit_number": position,
            "commit_user": USER,
            "received_at": at,
        }


def record_id(number: int) -> str:
    """The Id of the record with this number; later numbers have greater ones."""
    return f"006Dp{number:010}IAA"
