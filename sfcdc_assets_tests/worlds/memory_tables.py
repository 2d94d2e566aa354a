"""An entity's tables in memory, and a batch of it: what `apply` does around the pure core, without Spark and files.

The order of commits, the checkpoint that says which rows count, the range of events that is read again for a reading
and the place at which events stop are those of `apply.plan` and `apply.batch_commit`. What decides about rows is the
program's own: `Timeline`, `with_batches`, `org_reads_in_order`, `Checkpoint`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from sfcdc_assets.apply.batch_events import LONGEST_TRANSACTION
from sfcdc_assets.apply.reads_in_order import org_reads_in_order
from sfcdc_assets.key_ranges.frames import empty_rows
from sfcdc_assets.lake.tables.entity_checkpoint import Checkpoint
from sfcdc_assets.lake.tables.snapshot_reads import CompleteSnapshot, ReadBackRows
from sfcdc_assets.timeline.read_rows import read_schema
from sfcdc_assets.timeline.text_values import TEXT_FIELDS
from sfcdc_assets.timeline.timeline import OrgRead, Timeline
from sfcdc_assets.timeline.version_columns import STANDS_AT, current_state_schema, history_schema
from sfcdc_assets.timeline.versions import with_batches
from sfcdc_assets_tests.worlds.stories import COLUMNS, SECOND, Stories

READ_AT = 1_000 * SECOND
READS = empty_rows(read_schema(COLUMNS))
_ONE_TEXT = ["record_id", "field", "position", "origin", "sha256"]
_CHANNEL = "c"


@dataclass(frozen=True)
class Reading:
    """A read of the org that has its watermark at a position, and shows what there was at a later one or the same."""

    watermark: int
    shows: int
    is_snapshot: bool = False
    of_all: bool = False
    """A read-back of every record, as an audit wants it; else of those that are suspect."""


@dataclass(frozen=True)
class Taken:
    """A reading that was landed: what the tables of readings have."""

    reading: Reading
    number: int
    rows: pl.DataFrame
    after_read_back: int


@dataclass
class Tables:
    """Of all stories at once. `history` and `texts` have rows that do not count, where a batch crashed."""

    stories: Stories
    rows: pl.DataFrame = field(default_factory=lambda: empty_rows(current_state_schema(COLUMNS)))
    history: pl.DataFrame = field(default_factory=lambda: empty_rows(history_schema(COLUMNS)))
    texts: pl.DataFrame = field(default_factory=lambda: empty_rows(TEXT_FIELDS))
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    snapshots: list[Taken] = field(default_factory=list)
    read_backs: list[Taken] = field(default_factory=list)
    noted: set[int] = field(default_factory=set)
    """Positions of entries about the entity."""
    ledger: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"Id": pl.String, "entry": pl.Int64}))
    """Open entries about records."""

    @property
    def superseded(self) -> pl.DataFrame:
        """What readers take for the history."""
        return self.history.filter(pl.sql_expr(self.checkpoint.part("_superseded_at")))

    @property
    def known_texts(self) -> pl.DataFrame:
        """What readers take for the large texts."""
        return self.texts.filter(pl.sql_expr(self.checkpoint.part("position")))

    def read(self, reading: Reading) -> None:
        """Read the org, and land what it shows."""
        at = self.stories.truth.filter(pl.col("at") == reading.shows)
        if reading.is_snapshot:
            shown = at.filter(pl.col("life") != "absent")
            if not self.snapshots:
                shown = shown.filter(~pl.col("is_hidden"))
        elif reading.of_all:
            shown = at.filter(pl.col("life") != "absent")  # nobody asks for a record that never was
        else:
            shown = at.join(self.rows.filter("_in_doubt").select("Id"), on="Id", how="semi")
        taken = self.snapshots if reading.is_snapshot else self.read_backs
        last = len(self.read_backs)
        taken.append(Taken(reading, len(taken) + 1, as_read(shown, reading.watermark), last))

    def batch(self, up_to: int, commits: int = 3) -> None:
        """Apply what was landed, complete up to a position. `commits`: after so many of the batch's three it dies."""
        self._settle()
        before = self.checkpoint
        new = [each for each in self.snapshots if each.number > before.snapshot]
        first = min([before.read_back, *(each.after_read_back for each in new)])
        rolls_back = bool(new) and bool(before.batch) and new[0].reading.watermark < before.position
        floor = new[0].reading.watermark if rolls_back else None
        backs = [
            each
            for each in self.read_backs
            if each.number > first or (floor is not None and each.reading.watermark > floor)
        ]
        watermark = self.snapshots[-1].reading.watermark
        reads = [each.reading.watermark for each in (*new, *backs)]
        latest = max(reads, default=0)
        after = self._after(new, backs)
        lowest = int(after["after"].min() or 0) if after.height else before.position  # type: ignore[call-overload]
        end = max(up_to, lowest, before.position, watermark)
        blocked = [each for each in self.noted if each > watermark]
        end = max(before.position, min([end, *(each - 1 for each in blocked)]))
        reported = [each for each in self.stories.overflows if lowest < each <= max(end, latest)]
        found = next((each for each in reported if watermark < each <= end), None)
        if found is not None:
            blocked.append(found)
            end = found - 1
        suspected = max(blocked, default=0)
        all_suspect = bool(blocked) and (bool(new) or before.suspected < suspected)
        org_reads = self._placed(new, backs, sorted({*self.noted, *reported, *blocked}))
        changes = self._changes(after, end, backs, max((each.reading.watermark for each in new), default=0))
        everything = rolls_back or all_suspect or bool(new)
        taken, others = self.rows, self.rows.clear()
        if not everything:
            concerned = pl.concat([changes["record_id"], *(each.rows["Id"] for each in backs)]).unique()
            taken, others = (
                self.rows.join(concerned.to_frame("Id"), on="Id", how=how)
                for how in ("semi", "anti")  # type: ignore[arg-type]
            )
        number = before.batch + 1
        timeline = Timeline(COLUMNS, taken, number)
        if floor is not None:
            # The files that are read are those of the table, and it is clean: `_settle`.
            timeline.roll_back(floor, self.history.filter(pl.col("_superseded_at") > floor))
        timeline.take(changes, org_reads, end)
        if all_suspect:
            timeline.suspect_before(suspected)
        rows = with_batches(taken, timeline.rows, number)
        if commits:
            self.texts = pl.concat([self.texts, self._once(timeline.new_texts, [read for read, _ in org_reads], floor)])
            self.noted |= {found} if found is not None else set()
            entries = [(each.record_id, each.position) for each in timeline.suspects]
            opened = pl.DataFrame(entries, schema=self.ledger.schema, orient="row")
            self.ledger = pl.concat([self.ledger, opened]).unique(maintain_order=True)
        if commits > 1:
            self.history = pl.concat([self.history, timeline.superseded])
        if commits > 2:
            self.rows = pl.concat([others, rows])
            self.checkpoint = replace(
                before,
                position=end,
                batch=number,
                snapshot=len(self.snapshots),
                read_back=len(self.read_backs),
                suspected=suspected or before.suspected,
                **({} if floor is None else {"rolled_back_in": number, "rolled_back_to": floor}),
            )
            self._heal()

    def _settle(self) -> None:
        """Remove what a batch left that was not committed."""
        self.history = self.history.filter(~pl.sql_expr(self.checkpoint.not_part("_superseded_at")))
        self.texts = self.texts.filter(~pl.sql_expr(self.checkpoint.not_part("position")))

    def _heal(self) -> None:
        free = self.rows.filter(~pl.col("_in_doubt")).select("Id", STANDS_AT.alias("stands_at"))
        met = self.ledger.join(free, on="Id", how="left", maintain_order="left")
        self.ledger = met.filter(~(pl.col("stands_at") >= pl.col("entry")).fill_null(value=False)).drop("stands_at")

    def _after(self, new: list[Taken], backs: list[Taken]) -> pl.DataFrame:
        """Return from where on each story's events are read, for those where that is before the applied position."""
        lows = []
        if new:
            everyone = self.stories.truth.filter(pl.col("at") == 0).select("Id")
            watermark = min(each.reading.watermark for each in new)
            lows.append(everyone.with_columns(after=pl.lit(watermark, pl.Int64)))
            lows.append(self.ledger.select("Id", (pl.col("entry") - 1).alias("after")))
            entity = [each - 1 for each in self.noted if each > (self._watermark_before(new))]
            if entity:
                lows.append(everyone.with_columns(after=pl.lit(min(entity), pl.Int64)))
        for each in backs:
            lows.append(each.rows.select("Id", pl.lit(each.reading.watermark, pl.Int64).alias("after")))
            lows.append(
                self.ledger.join(each.rows.select("Id"), on="Id", how="semi").select(
                    "Id", (pl.col("entry") - 1).alias("after")
                )
            )
        if not lows:
            return pl.DataFrame(schema={"story": pl.String, "after": pl.Int64})
        of_story = pl.concat(lows).group_by(pl.col("Id").str.head(-1).alias("story")).agg(pl.col("after").min())
        floor, applied = self.snapshots[0].reading.watermark, self.checkpoint.position
        return of_story.select(
            "story", after=pl.max_horizontal(pl.lit(floor), pl.min_horizontal("after", pl.lit(applied)))
        )

    def _watermark_before(self, new: list[Taken]) -> int:
        before = [each.reading.watermark for each in self.snapshots if each not in new]
        return before[-1] if before else -1

    def _changes(self, after: pl.DataFrame, end: int, backs: list[Taken], snapshot: int) -> pl.DataFrame:
        """Return the events that are read: in each story up to the end, or the last watermark of its readings."""
        floor, reported = max(self.snapshots[0].reading.watermark, self.checkpoint.position), self.stories.changes
        if after.is_empty():
            return reported.filter(pl.col("position").is_between(floor, end, closed="right"))
        watermarks = [
            each.rows.select(
                pl.col("Id").str.head(-1).alias("story"), pl.lit(each.reading.watermark, pl.Int64).alias("read_to")
            )
            for each in backs
        ]
        read_to = (
            pl.concat([pl.DataFrame(schema={"story": pl.String, "read_to": pl.Int64}), *watermarks])
            .group_by("story")
            .agg(pl.col("read_to").max())
        )
        whole = (
            reported.with_columns(pl.col("record_id").str.head(-1).alias("story"))
            .join(after, on="story", how="left", maintain_order="left")
            .join(read_to, on="story", how="left", maintain_order="left")
        )
        return whole.filter(
            pl.col("position") > pl.col("after").fill_null(floor),
            pl.col("position") <= pl.max_horizontal(pl.lit(max(end, snapshot)), "read_to"),
        ).drop("story", "after", "read_to")

    def _placed(self, new: list[Taken], backs: list[Taken], suspected: list[int]) -> list[tuple[OrgRead, pl.DataFrame]]:
        complete, fresh = (
            tuple(CompleteSnapshot(each.number, each.reading.watermark, (), each.after_read_back) for each in some)
            for some in (self.snapshots, new)
        )
        known = tuple(ReadBackRows(each.number, each.reading.watermark, frozenset()) for each in backs)
        rows = {("s", each.number): each.rows for each in new} | {("r", each.number): each.rows for each in backs}
        placed = []
        for each in org_reads_in_order(complete, fresh, known, suspected):
            seen = datetime.fromtimestamp(each.until, UTC) - LONGEST_TRANSACTION if each.until else None
            read = replace(each, seen_until=seen)
            found = rows[("s", each.snapshot) if each.snapshot else ("r", each.read_back)]
            if each.snapshot or found.height:
                placed.append((read, found))
        return placed

    def _once(self, new_texts: pl.DataFrame, reads: list[OrgRead], floor: int | None) -> pl.DataFrame:
        """As `KeyRangeTask` does: without the texts that an earlier read with the same watermark has shown."""
        if not reads or new_texts.is_empty():
            return new_texts
        watermarks = [each.position for each in reads if floor is None or each.position <= floor]
        known = self.texts.filter(pl.col("position").is_in(watermarks))
        once = new_texts.unique(_ONE_TEXT, keep="first", maintain_order=True)
        return once.join(known.select(_ONE_TEXT), on=_ONE_TEXT, how="anti", nulls_equal=True, maintain_order="left")


def as_read(shown: pl.DataFrame, watermark: int) -> pl.DataFrame:
    """Return records as the org has them (rows of `Stories.truth`) as rows read from it."""
    is_there = pl.col("life") != "absent"
    stamp = (pl.col("modified") * SECOND).cast(pl.Datetime("us", "UTC"))
    return shown.select(
        "Id",
        "Name",
        "Count",
        "Description",
        (pl.col("life") != "alive").alias("_is_deleted"),
        pl.when(is_there).then(stamp).alias("_system_modstamp"),
        pl.lit(None, pl.String).alias("_master_record_id"),
        pl.lit(watermark, pl.Int64).alias("_position"),
        pl.lit(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=READ_AT)).alias("_read_at"),
        pl.lit(None, pl.List(pl.String)).alias("_unread"),
    ).cast(READS.schema)
