"""The changes of one entity since a token, a position or a time, from its `history` and `current_state` at a cut.

A batch is in both tables by number: a row of `current_state` has that of the batch that wrote it last, one of `history`
that of the batch that superseded it. So the records changed since a batch are the rows with a higher number, and what
a record was then is its first version that was superseded since. Where a batch went back to an earlier watermark in
between, what was there before it says what the records were (`roll_backs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Integral

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.changes.reported_changes import (
    as_rows,
    changes_of,
    changes_schema,
    columns_read,
    first_of_each,
    inserts,
    later_than,
    no_rows,
    parted,
    rows_schema,
)
from sfcdc_assets.changes.token import GONE, RESTORED, ChangesExpired, Token
from sfcdc_assets.lake.delta.conditions import literal_time
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged, UnreadableTable
from sfcdc_assets.lake.tables import current_state, history
from sfcdc_assets.lake.tables.current_state import conditions_on_ids
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.organization import organization_of
from sfcdc_assets.lake.tables.roll_backs import RollBack, roll_backs
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.timeline.past_rows import FIELD_HISTORY

IS_VERSION = "_change_type is not null"
"""Of a record that has none only the Id is known: it is reported once more is."""
NOT_FROM_FIELD_HISTORY = f"_change_type <> '{FIELD_HISTORY}'"
"""What was before a record's first version is reported to nobody: it was found later, and changes no record."""

_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")
"""How a time begins that somebody wrote as a text; no token does."""
Since = str | int | datetime | None
"""A token, a position of the channel that feeds the entity, a time (with zone), or nothing."""


@dataclass(frozen=True)
class Pair:
    """`current_state` and `history` of an entity at one moment."""

    entity: str
    rows: Table
    versions: Table | None

    @property
    def checkpoint(self) -> Checkpoint:
        """What the tables have."""
        return Checkpoint.of(self.rows, channel="")

    def token(self, organization: str | None) -> Token:
        """Return the token of them."""
        now = self.checkpoint
        return Token(self.entity, now.built_at, now.retyped_at, now.batch, self.rows.table_id[:8], organization)

    def current(self, condition: str) -> pa.Table:
        """Return rows that have a version and fulfil a condition."""
        return self.rows.scan(columns_read(self.rows.schema.names), f"{IS_VERSION} and ({condition})")

    def written_since(self, batch: int) -> pa.Table:
        """Return rows that have a version and that a later batch has written."""
        columns = columns_read(self.rows.schema.names)
        try:
            rows = self.rows.rows_above("_batch", batch, columns)
        except UnreadableTable:  # another client has given it a feature that only the engine reads
            return self.current(f"_batch > {batch}")
        return rows.filter(pc.is_valid(rows["_change_type"]))

    def superseded(self, condition: str, shape: pa.Schema) -> pl.DataFrame:
        """Return the superseded versions that are part of the tables and fulfil a condition, as `rows_schema`."""
        if self.versions is None:
            return as_rows(shape.empty_table(), shape)
        names = columns_read(self.versions.schema.names)
        return as_rows(self.versions.scan(names, f"{self._of_tables} and ({condition})"), shape)

    def superseded_since(self, batch: int, shape: pa.Schema) -> pl.DataFrame:
        """Return those that a later batch has superseded, as `rows_schema`."""
        if self.versions is None:
            return as_rows(shape.empty_table(), shape)
        try:
            rows = self.versions.rows_above("_batch", batch, columns_read(self.versions.schema.names))
        except UnreadableTable:  # as above
            return self.superseded(f"_batch > {batch}", shape)
        return as_rows(pl.DataFrame(rows).filter(pl.sql_expr(self._of_tables)).to_arrow(), shape)

    @property
    def _of_tables(self) -> str:
        return f"{self.checkpoint.part(history.ENDS_AT)} and {NOT_FROM_FIELD_HISTORY}"


@dataclass(frozen=True)
class Before:
    """What was there before a batch went back: it answers tokens of batches from `since` on that come before `up_to`.
    `watermark`: the earliest to which a batch went back from there on. `pair`: None where it is not kept any more."""

    since: int
    up_to: int
    watermark: int
    pair: Pair | None


def before_roll_backs(warehouse: Warehouse, now: Pair) -> tuple[Before, ...]:
    """Return what was there before each batch that went back, as far as it is known, in order."""
    if not now.checkpoint.rolled_back_in:
        return ()
    noted, found, since = roll_backs(now.rows), [], 0
    for number, each in enumerate(noted):
        pair = _opened(warehouse, now.entity, each)
        if number == 0 and pair is not None and pair.checkpoint.rolled_back_in:
            since = pair.checkpoint.rolled_back_in
            found.append(Before(0, since, 0, None))  # of more of them than are noted
        found.append(Before(since, each.batch, min(later.position for later in noted[number:]), pair))
        since = each.batch
    if since < now.checkpoint.rolled_back_in:
        found.append(Before(since, now.checkpoint.rolled_back_in, 0, None))
    return tuple(found)


class EntityChanges:
    """What can be asked of the pair of an entity's tables at a cut."""

    def __init__(self, warehouse: Warehouse, pair: Pair) -> None:
        self._warehouse, self._pair = warehouse, pair
        table = pair.rows.schema
        self._schema, self._rows, self._none = changes_schema(table), rows_schema(table), no_rows(table)

    def token(self) -> Token:
        """Return the token to ask with next time."""
        return self._pair.token(organization_of(self._warehouse))

    def since(self, since: Since, *, versions: bool) -> tuple[pa.Table, str]:
        """Return the changes and the token to ask with next time. Raises `ChangesExpired`, and
        `ValueError` for a time without a zone, and for what says no place: no consumer begins again for that."""
        now = self.token()
        if since is None:
            return (self._all_versions() if versions else self._living()), str(now)
        if isinstance(since, Integral):
            since = int(since)
            return self._since_place("_position", "_superseded_at", since, versions=versions), str(now)
        if isinstance(since, datetime):
            if since.tzinfo is None:
                raise ValueError(
                    f"{since.isoformat()} has no time zone: write it with one, as datetime(..., tzinfo=UTC)"
                )
            return self._since_place("_valid_from", "_valid_to", since.astimezone(UTC), versions=versions), str(now)
        if not isinstance(since, str) or _DATE.match(since):
            raise ValueError(
                f"{since!r} is no place to begin: give a token as it was given, a position as int, or a time as "
                "datetime with its zone, as datetime(..., tzinfo=UTC)"
            )
        token = Token.parse(since, self._pair.entity)
        token.check(now)
        if token.batch >= now.batch:
            if token.batch > now.batch and self._newest_batch() < token.batch:
                raise ChangesExpired(self._pair.entity, RESTORED)
            return self._schema.empty_table(), str(token)
        try:
            return self._since_batch(token.batch, versions=versions), str(now)
        except _Gone as error:
            raise ChangesExpired(self._pair.entity, GONE) from error

    def _newest_batch(self) -> int:
        """Return the last batch of the tables, of which the cut may be an earlier state."""
        newest = Table.open(self._warehouse, current_state.name_of(self._pair.entity))
        return Checkpoint.of(newest, channel="").batch if newest is not None else 0

    def _living(self) -> pa.Table:
        rows = self._pair.current("not _is_deleted")
        return inserts(as_rows(rows, self._rows).to_arrow().cast(self._rows), self._schema)

    def _all_versions(self) -> pa.Table:
        after = as_rows(self._pair.current("true"), self._rows)
        return changes_of(self._none, self._pair.superseded("true", self._rows), after, self._schema)

    def _since_place(self, begins: str, ends: str, place: int | datetime, *, versions: bool) -> pa.Table:
        """`begins`, `ends`: the columns that say where, or when, a version does."""
        literal = literal_time(place) if isinstance(place, datetime) else place
        after = as_rows(self._pair.current(f"{begins} > {literal}"), self._rows)
        chain = self._pair.superseded(f"{ends} > {literal}", self._rows)
        chain = chain.join(after.select("Id"), on="Id", how="semi", maintain_order="left")
        before, later = parted(chain, first_of_each(chain).filter(pl.col(begins) <= place).select("Id"))
        return changes_of(before, later if versions else self._none, after, self._schema)

    def _since_batch(self, batch: int, *, versions: bool) -> pa.Table:
        read = self._pair.written_since(batch)
        after, ids = as_rows(read, self._rows), pl.DataFrame(read.select(["Id", "_first_batch"]))
        chain = self._pair.superseded_since(batch, self._rows)
        then = self._before_roll_backs(batch)
        if then is None:
            before, later = _of_then(ids, chain, after, batch)
        else:
            with _reading_what_was_kept():
                before, gone = self._before(*then, after.select("Id"), batch)
            after, later = pl.concat([after, gone]), later_than(chain, before)
        later = later.join(after.select("Id"), on="Id", how="semi", maintain_order="left")  # none without its end
        return changes_of(before, later if versions else self._none, after, self._schema)

    def _before(
        self, pair: Pair, watermark: int, reported: pl.DataFrame, batch: int
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return what the records that are reported, and those that have vanished since, were right after a batch; and
        these as they are now: deleted."""
        vanished = self._vanished(pair, watermark)
        concerned = pl.concat([reported, vanished.select("Id")])
        read = [pair.current(named) for named in conditions_on_ids(concerned["Id"].sort().to_list())]
        rows = pa.concat_tables([pair.current("false"), *read])
        chain = pair.superseded_since(batch, self._rows)
        chain = chain.join(concerned, on="Id", how="semi", maintain_order="left")
        ids = pl.DataFrame(rows.select(["Id", "_first_batch"]))
        before, _ = _of_then(ids, chain, as_rows(rows, self._rows), batch)
        gone = vanished.join(before.select("Id"), on="Id", how="semi", maintain_order="left")
        return before, gone.with_columns(_is_deleted=pl.lit(value=True), _deleted_reason=pl.lit(None, pl.String))

    def _before_roll_backs(self, batch: int) -> tuple[Pair, int] | None:
        """Return the tables before the first batch after this one that went back, and the earliest watermark to which
        one did; None where none did. Raises `_Gone`."""
        if self._pair.checkpoint.rolled_back_in <= batch:
            return None
        for each in before_roll_backs(self._warehouse, self._pair):
            if each.since <= batch < each.up_to and each.pair is not None:
                return each.pair, each.watermark
        raise _Gone

    def _vanished(self, then: Pair, watermark: int) -> pl.DataFrame:
        """Return the rows of then (`rows_schema`) of records that have none any more. Their versions all came after the
        watermark."""
        found = as_rows(then.current(f"_position > {watermark}"), self._rows)
        there: list[str] = []
        for named in conditions_on_ids(found["Id"].to_list()):
            there += self._pair.rows.scan(["Id"], f"{IS_VERSION} and {named}")["Id"].to_pylist()
        return found.filter(~pl.col("Id").is_in(there))


class _Gone(Exception):
    """What was there before a batch went back cannot be read."""


@contextmanager
def _reading_what_was_kept() -> Iterator[None]:
    try:
        yield
    except TableDamaged as error:
        raise _Gone from error


def _opened(warehouse: Warehouse, entity: str, before: RollBack) -> Pair | None:
    try:
        rows = Table.open(warehouse, current_state.name_of(entity), before.rows)
        versions = Table.open(warehouse, history.name_of(entity), before.versions)
        for each in (rows, versions):
            if each is not None:
                each.files()
    except (TableDamaged, UnreadableTable):
        return None
    return Pair(entity, rows, versions) if rows is not None else None


def _of_then(
    ids: pl.DataFrame, chain: pl.DataFrame, current: pl.DataFrame, batch: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what the records were right after a batch, of those that had a version: the first that was superseded
    since, or the current one; and the rest of the versions superseded since. `ids`: `Id`, `_first_batch` of the records
    that may be asked for."""
    there = ids.filter(pl.col("_first_batch").fill_null(0) <= batch).select("Id")
    first, rest = parted(chain, there)
    unchanged = there.join(first.select("Id"), on="Id", how="anti")
    return pl.concat([first, current.join(unchanged, on="Id", how="semi", maintain_order="left")]), rest
