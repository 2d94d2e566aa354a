"""The rows of `raw_events`: which events there are, where, and since when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.raw_event_rows import RAW_EVENTS
from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.delta.data_files import DataFile, data_files
from sfcdc_assets.lake.delta.table import Table
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.tables.raw_event_files import files_by_channel
from sfcdc_assets.runtime.times import utc

FEW_ENTITIES = 8
"""Of so many the newest events are looked for one after another."""
RECENT = 10_000
FEW_FILES = 16
"""So many are read one after another; of more, a scan reads several at once and no rows that are not wanted."""


class RawEventReads:
    """A handle on one snapshot of the table, for reading its events."""

    table: Table

    def landed_among(self, channel: str, positions: Sequence[int]) -> set[int]:
        """Return those of the positions (few) at which the channel has an event."""
        if not positions:
            return set()
        quoted, listed = literal(channel), ", ".join(str(position) for position in positions)
        rows = self.table.scan(["position"], f"channel = {quoted} and position in ({listed})")
        return set(rows["position"].to_pylist())

    def files(self, entity: str, channel: str, after: int, up_to: int) -> tuple[DataFile, ...]:
        """Files that may hold events of the entity with after < position <= up_to on the channel; statistics and rows
        are those of the channel's events in them."""
        return data_files(self._between(entity, channel, after, up_to))

    def _between(self, entity: str, channel: str, after: int, up_to: int) -> pl.DataFrame:
        wanted = (pl.col("max.position") > after) & (pl.col("min.position") <= up_to)
        return self._of_entity(entity, channel).filter(wanted)

    def _of_channel(self, channel: str) -> pl.DataFrame:
        def of_channel() -> pl.DataFrame:
            return files_by_channel(self.table).filter(pl.col("channel") == channel)

        return self.table.answer(("files of a channel", channel), of_channel)

    def _of_entity(self, entity: str, channel: str) -> pl.DataFrame:
        """Return an entity's files. They are told apart once, for all entities of a run: each of them looking through
        all files would take the square of their number."""
        files = self._of_channel(channel)

        def of_each() -> dict[str, pl.DataFrame]:
            parts = files.partition_by("partition.entity_name", as_dict=True)
            return {name: part for (name,), part in parts.items()}

        return self.table.answer(("files of entities", channel), of_each).get(entity, files.clear())

    def channels(self) -> tuple[str, ...]:
        """Channels that events were landed from."""
        return tuple(files_by_channel(self.table)["channel"].unique().sort())

    def last_positions(self, channel: str) -> dict[str, int]:
        """Highest landed position of each entity on the channel, from the log alone."""
        return dict(self.table.answer(("last positions", channel), lambda: self._last_positions(channel)))

    def _last_positions(self, channel: str) -> dict[str, int]:
        files = self._of_channel(channel)
        return dict(files.group_by("partition.entity_name").agg(pl.col("max.position").max()).iter_rows())

    def first_position_received_after(self, channel: str, received_ms: int) -> int | None:
        """Lowest position of the channel's events received after a time (ms, UTC); None when there are none."""
        since = utc(received_ms)
        files = self._of_channel(channel).filter(pl.col("max.received_at") > since)
        if files.is_empty():
            return None
        first: int = files.select(pl.col("min.position").min()).item()
        quoted = literal(channel)
        try:
            rows = self.table.scan(["position", "received_at"], f"channel = {quoted} and position >= {first}")
        except TableDamaged:
            return first  # of a file that cannot be read only the log is left: all may be as late as its last event
        found: int | None = pc.min(rows.filter(pc.field("received_at") > since)["position"]).as_py()
        return found

    def kept_payloads(self) -> dict[tuple[str, str], list[DataFile]]:
        """(Entity, channel) -> its files whose payloads are not deleted yet, in position order."""
        held: dict[tuple[str, str], list[DataFile]] = {}
        dropped: dict[tuple[str, str], int] = {}
        for file in data_files(files_by_channel(self.table).sort("min.position")):
            key = (file.statistics["partition.entity_name"], file.statistics["channel"])
            if key not in dropped:
                dropped[key] = self.payloads_dropped(*key)
            if file.statistics["max.position"] > dropped[key]:
                held.setdefault(key, []).append(file)
        return held

    def received_before(self, before: datetime) -> dict[str, int]:
        """Channel -> the last position of a file all of whose events of it were received before a time. What lies
        before it was received before that time too."""
        files = files_by_channel(self.table).filter(pl.col("max.received_at") < before)
        return dict(files.group_by("channel").agg(pl.col("max.position").max()).iter_rows())

    def payloads_dropped(self, entity: str, channel: str) -> int:
        """Position up to which the entity's events on the channel have no payloads any more; 0 for none."""
        return payloads_dropped(self.table, entity, channel)

    def drop_payloads(self, entity: str, channel: str, up_to: int) -> int:
        """Give up the payloads of the entity's events on the channel up to a position; returns how many there were.

        Everything else of the events stays. Raises `ConcurrentCommit`.
        """
        after = self.payloads_dropped(entity, channel)
        predicate = f"{of_entity(entity, channel)} and position > {after} and position <= {up_to}"
        return self.table.set_null("payload", predicate, {_dropped(entity, channel): up_to})

    def counts(self) -> dict[str, int]:
        """Landed events of each entity, from the log alone."""
        return dict(self.table.answer("counts", self._counts))

    def _counts(self) -> dict[str, int]:
        files = self.table.file_statistics()
        return dict(files.group_by("partition.entity_name").agg(pl.col("num_records").sum()).iter_rows())

    def newest(self, entities: Collection[str], channel: str, count: int) -> dict[str, pa.Table]:
        """Return the last events of each entity on a channel, newest first, without payload and replay id; of many
        entities those among the channel's last `RECENT` positions, by one read."""
        last = self.last_positions(channel)
        shown = [name for name in RAW_EVENTS.names if name not in ("payload", "replay_id", "channel", "entity_name")]
        newest_first = [("position", "descending")]
        if len(entities) <= FEW_ENTITIES:
            recent = {
                each: f"{of_entity(each, channel)} and position > {last.get(each, 0) - 50 * count}" for each in entities
            }
            found = {each: self.table.scan(shown, where) for each, where in recent.items() if each in last}
            return {entity: rows.sort_by(newest_first).slice(0, count) for entity, rows in found.items()}
        quoted, since = literal(channel), max(last.values(), default=0) - RECENT
        rows = self.table.scan([*shown, "entity_name"], f"channel = {quoted} and position > {since}")
        rows = rows.combine_chunks().sort_by(newest_first)
        of_each = pl.DataFrame({"entity": rows["entity_name"]}).with_row_index().group_by("entity").agg(pl.col("index"))
        numbers = {entity: index[:count] for entity, index in of_each.iter_rows() if entity in entities}
        return {entity: rows.take(index).select(shown) for entity, index in numbers.items()}

    def headers(
        self,
        entity: str,
        channel: str,
        columns: Sequence[str],
        *,
        after: int,
        up_to: int,
        committed: tuple[datetime, datetime] | None = None,
    ) -> pa.Table:
        """Columns of the entity's events with after < position <= up_to, and committed from the first to the second
        time, both included. Files that cannot hold such events are not read."""
        files = self._files_with(entity, channel, after, up_to, committed)
        if files.is_empty():
            return self.table.schema.empty_table().select(list(columns))
        if files.height <= FEW_FILES:
            return self._read(files["path"].to_list(), columns, channel, after, up_to, committed)
        where = f"{of_entity(entity, channel)} and position > {after} and position <= {up_to}"
        if committed is not None:
            first, last = map(literal_time, committed)
            where += f" and commit_timestamp >= {first} and commit_timestamp <= {last}"
        return self.table.scan(columns, where)

    def _read(
        self,
        paths: Sequence[str],
        columns: Sequence[str],
        channel: str,
        after: int,
        up_to: int,
        committed: tuple[datetime, datetime] | None,
    ) -> pa.Table:
        """Read as `headers` does, from the files themselves: planning a scan takes the longer the more files the table
        has."""
        asked = list(dict.fromkeys([*columns, "channel", "position", "commit_timestamp"]))
        rows = self.table.read_files(paths, asked)
        position, wanted = rows["position"], pc.equal(rows["channel"], channel)
        wanted = pc.and_(wanted, pc.and_(pc.greater(position, after), pc.less_equal(position, up_to)))
        if committed is not None:
            first, last = (pa.scalar(time, rows.schema.field("commit_timestamp").type) for time in committed)
            at = rows["commit_timestamp"]
            wanted = pc.and_(wanted, pc.and_(pc.greater_equal(at, first), pc.less_equal(at, last)))
        return rows.filter(wanted).select(list(columns))

    def _files_with(
        self, entity: str, channel: str, after: int, up_to: int, committed: tuple[datetime, datetime] | None
    ) -> pl.DataFrame:
        """Return the files that may have such events, as the log alone shows."""
        found = self._between(entity, channel, after, up_to)
        if committed is not None and not found.is_empty():
            first, last = (time.astimezone(UTC) for time in committed)
            # A writer may keep the greatest time with fewer digits.
            late = pl.col("max.commit_timestamp") + timedelta(seconds=1) >= first
            found = found.filter((late & (pl.col("min.commit_timestamp") <= last)).fill_null(value=True))
        return found

    def committed_at(self, channel: str, position: int) -> datetime | None:
        """Return when the org committed the channel's event at a position; None where there is none, or it cannot be
        read."""
        quoted = literal(channel)
        with suppress(TableDamaged):
            rows = self.table.scan(["commit_timestamp"], f"channel = {quoted} and position = {position}")
            return next(iter(rows["commit_timestamp"].to_pylist()), None)
        return None

    def last_commit_timestamp(self, channel: str, position: int) -> datetime | None:
        """Newest commit time among the channel's last events up to a position; None when there are none.

        Shown by the log but for files that go on beyond the position: a damaged file of one entity, which a cut of all
        must not depend on, is left out.
        """
        of_channel = self._of_channel(channel).filter(pl.col("min.position") <= position)
        whole = of_channel.filter(pl.col("max.position") <= position)
        near_the_end = pl.col("max.position") > pl.col("max.position").max() - 1_000
        newest: datetime | None = whole.filter(near_the_end).select(pl.col("max.commit_timestamp").max()).item()
        beyond = of_channel.filter(pl.col("max.position") > position).select(pl.col("min.position").min()).item()
        times = [newest]
        if beyond is not None:
            quoted = literal(channel)
            within = f"channel = {quoted} and position >= {beyond} and position <= {position}"
            with suppress(TableDamaged):
                times += self.table.scan(["commit_timestamp"], within)["commit_timestamp"].to_pylist()
        return max((time for time in times if time is not None), default=None)

    def landed_after(self, channel: str, position: int) -> datetime | None:
        """Return when the first of the channel's events after a position landed, or later, as far as the log alone
        shows; None when there are none."""
        beyond = self._of_channel(channel).filter(pl.col("max.position") > position)
        is_whole = pl.col("min.position") > position
        first: datetime | None = beyond.select(
            pl.when(is_whole).then(pl.col("min.received_at")).otherwise(pl.col("max.received_at")).min()
        ).item()
        return first

    def record_ids_after(self, entity: str, channel: str, position: int) -> set[str]:
        """Record ids that the entity's events after a position name."""
        rows = self.table.scan(["record_ids"], f"{of_entity(entity, channel)} and position > {position}")
        return {record_id for ids in rows["record_ids"].to_pylist() for record_id in ids}


def of_entity(entity: str, channel: str) -> str:
    """Return the condition that selects the entity's events on a channel."""
    return f"entity_name = {literal(entity)} and channel = {literal(channel)}"


def _dropped(entity: str, channel: str) -> str:
    return f"{channel}#payloads of {entity} dropped"


def payloads_dropped(table: Table, entity: str, channel: str) -> int:
    """Position up to which the entity's events on the channel have no payloads any more; 0 for none."""
    return table.transaction_version(_dropped(entity, channel)) or 0
