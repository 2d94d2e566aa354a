"""`raw_events`: the channel's events, the checkpoint in the stream and the replay id to resume from, in one commit.

The position and the last complete transaction's position are the table's own transaction versions, which checkpoints
keep for ever. The resume point (the replay id, and which events came after it already) is custom metadata of the commit
and, when no kept commit has it, told by the last rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sfcdc_assets.change_events.raw_event_rows import EARLIEST, RAW_EVENTS, StreamCheckpoint
from sfcdc_assets.lake.errors import TableDamaged
from sfcdc_assets.lake.table import DataFile, Table
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.streams.delivered_event import DeliveredEvent
from sfcdc_assets.streams.resume import ResumePoint

NAME = "raw_events"


class RawEvents:
    """A handle on one snapshot of `raw_events`; commits go through the snapshot whose place was read."""

    def __init__(self, table: Table) -> None:
        self.table = table

    @classmethod
    def open(cls, warehouse: Warehouse) -> RawEvents:
        """The newest snapshot; the table is created when it does not exist."""
        return cls(Table.open_or_create(warehouse, NAME, RAW_EVENTS, partition_by=["entity_name"]))

    def checkpoint(self, channel: str) -> StreamCheckpoint:
        """How far the channel has been landed, as of this snapshot."""
        position = self.table.transaction_version(channel)
        if position is None:
            return StreamCheckpoint(channel)
        commit = self.table.latest_commit(_replay_id(channel))
        checkpoint = StreamCheckpoint(channel, position=position, complete_position=self.complete_position(channel))
        if commit is None:
            return replace(checkpoint, resume=self._resume_of_rows(channel, position), begun=EARLIEST)
        noted = json.loads(commit.get(_resume(channel)) or "{}")
        return replace(
            checkpoint,
            resume=ResumePoint(
                bytes.fromhex(commit[_replay_id(channel)]) or None,
                noted.get("known_at_ms"),
                bytes.fromhex(noted.get("open_id", "")) or None,
                tuple(noted.get("open_marks", ())),
            ),
            transaction_key=commit.get(_transaction_key(channel)) or None,
            begun=noted.get("begun"),
            begun_at_ms=noted.get("begun_at_ms"),
        )

    def landed_at_ms(self, channel: str) -> int | None:
        """When the channel's checkpoint was last moved (ms, UTC)."""
        commit = self.table.latest_commit(_replay_id(channel))
        if commit is None:
            return None
        carried = commit.get(_landed_at(channel))
        return int(carried) if carried else commit.get("timestamp")

    def memory(self) -> dict[str, str]:
        """What the newest commits tell of each channel, as metadata of one more: so it is among the newest again."""
        noted: dict[str, str] = {}
        for channel in self.channels():
            commit = self.table.latest_commit(_replay_id(channel))
            if commit is not None:
                noted |= {name: str(commit[name]) for name in _keys_of(channel) if name in commit}
                noted[_landed_at(channel)] = str(self.landed_at_ms(channel))
        return noted

    def organization_id(self, channel: str) -> str | None:
        """The org the channel was read from when its place was last moved."""
        return self.table.latest_metadata(_organization_id(channel))

    def last_lost_checkpoint(self, channel: str) -> dict[str, Any] | None:
        """The last time the channel's checkpoint was lost: `reason`, `position` of the break, `lost_at` and
        `last_landed_at` (ms, UTC): the time between the two is bridged by reading the org. None if it never was."""
        noted = self.table.latest_metadata(f"lost_place:{channel}")
        return json.loads(noted) if noted else None

    def given_out(self, channel: str) -> int:
        """The last position that was given out on the channel; 0 before the first."""
        return self.table.transaction_version(channel) or 0

    def landed_among(self, channel: str, positions: Sequence[int]) -> set[int]:
        """Those of the positions (few) at which the channel has an event."""
        if not positions:
            return set()
        quoted, listed = channel.replace("'", "''"), ", ".join(str(position) for position in positions)
        rows = self.table.scan(["position"], f"channel = '{quoted}' and position in ({listed})")
        return set(rows["position"].to_pylist())

    def complete_position(self, channel: str) -> int:
        """Position of the channel's last complete transaction; 0 before the first."""
        return self.table.transaction_version(_complete(channel)) or 0

    def lose_checkpoint(
        self, checkpoint: StreamCheckpoint, lost: Mapping[str, Any], organization_id: str
    ) -> StreamCheckpoint:
        """Break the channel's order: a position of its own for the break, and no replay id to resume from."""
        broken = replace(
            checkpoint,
            position=checkpoint.position + 1,
            complete_position=checkpoint.position + 1,
            resume=ResumePoint(),
            transaction_key=None,
            begun=None,
            begun_at_ms=None,
        )
        metadata = {f"lost_place:{checkpoint.channel}": json.dumps({**lost, "position": broken.position})}
        self.commit(RAW_EVENTS.empty_table(), broken, organization_id, metadata)
        return broken

    def skip_to(self, channel: str, position: int) -> None:
        """Give no event of the channel a position up to this one, from now on. Raises `ConcurrentCommit`."""
        checkpoint = self.checkpoint(channel)
        if checkpoint.position < position:
            organization_id = self.organization_id(channel) or ""
            self.commit(RAW_EVENTS.empty_table(), replace(checkpoint, position=position), organization_id)

    def commit(
        self,
        rows: pa.Table,
        checkpoint: StreamCheckpoint,
        organization_id: str = "",
        metadata: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Rows, place and replay id in one commit (guarantee 1).

        Raises `ConcurrentCommit` when another process landed events of the channel since this snapshot.
        """
        resume = checkpoint.resume
        beside = {
            "known_at_ms": resume.known_at_ms,
            "open_id": (resume.open_id or b"").hex(),
            "open_marks": resume.open_marks,
            "begun": checkpoint.begun,
            "begun_at_ms": checkpoint.begun_at_ms,
        }
        noted = {
            _replay_id(checkpoint.channel): (resume.replay_id or b"").hex(),
            _resume(checkpoint.channel): json.dumps(beside),
            _transaction_key(checkpoint.channel): checkpoint.transaction_key or "",
            _organization_id(checkpoint.channel): organization_id,
            **metadata,
        }
        self.table.append(
            rows,
            {checkpoint.channel: checkpoint.position, _complete(checkpoint.channel): checkpoint.complete_position},
            noted,
        )

    def files(self, entity: str, channel: str, after: int, up_to: int) -> tuple[DataFile, ...]:
        """Files that may hold events of the entity with after < position <= up_to on the channel."""
        wanted = (pl.col("max.position") > after) & (pl.col("min.position") <= up_to)
        return self.table.files((pl.col("partition.entity_name") == entity) & wanted & _may_hold(channel))

    def channels(self) -> tuple[str, ...]:
        """Channels that events were landed from, from the log alone."""
        files = self.table.file_statistics()
        return tuple(sorted({*files["min.channel"].unique(), *files["max.channel"].unique()}))

    def last_positions(self, channel: str) -> dict[str, int]:
        """Highest landed position of each entity on the channel, from the log alone."""
        files = self.table.file_statistics().filter(_may_hold(channel))
        return dict(files.group_by("partition.entity_name").agg(pl.col("max.position").max()).iter_rows())

    def first_position_received_after(self, channel: str, received_ms: int) -> int | None:
        """Lowest position of the channel's events received after a time (ms, UTC); None when there are none."""
        since = datetime.fromtimestamp(received_ms / 1000, UTC)
        files = self.table.file_statistics().filter(_may_hold(channel) & (pl.col("max.received_at") > since))
        if files.is_empty():
            return None
        first = files.select(pl.col("min.position").min()).item()
        quoted = channel.replace("'", "''")
        try:
            rows = self.table.scan(["position", "received_at"], f"channel = '{quoted}' and position >= {first}")
        except TableDamaged:
            return first  # of a file that cannot be read only the log tells: all of it may be as late as its last event
        return pc.min(rows.filter(pc.field("received_at") > since)["position"]).as_py()

    def kept_payloads(self) -> dict[tuple[str, str], list[DataFile]]:
        """(Entity, channel) -> its files whose payloads are not given up yet, in position order; from the log alone."""
        held: dict[tuple[str, str], list[DataFile]] = {}
        dropped: dict[tuple[str, str], int] = {}
        for file in sorted(self.table.files(), key=lambda each: each.statistics["min.position"]):
            entity = file.statistics["partition.entity_name"]
            for channel in {file.statistics["min.channel"], file.statistics["max.channel"]}:
                key = (entity, channel)
                if key not in dropped:
                    dropped[key] = self.payloads_dropped(*key)
                if file.statistics["max.position"] > dropped[key]:
                    held.setdefault(key, []).append(file)
        return held

    def received_before(self, before: datetime) -> dict[str, int]:
        """Channel -> the last position of a file all of whose events were received before a time; from the log alone.
        What lies before it was received before that time too."""
        of_one_channel = pl.col("min.channel") == pl.col("max.channel")
        files = self.table.file_statistics().filter(of_one_channel & (pl.col("max.received_at") < before))
        return dict(files.group_by("min.channel").agg(pl.col("max.position").max()).iter_rows())

    def payloads_dropped(self, entity: str, channel: str) -> int:
        """Position up to which the entity's events on the channel have no payloads any more; 0 for none."""
        return self.table.transaction_version(_dropped(entity, channel)) or 0

    def drop_payloads(self, entity: str, channel: str, up_to: int) -> int:
        """Give up the payloads of the entity's events on the channel up to a position; returns how many there were.

        Everything else of the events stays. Raises `ConcurrentCommit`.
        """
        after = self.payloads_dropped(entity, channel)
        predicate = f"{_of(entity, channel)} and position > {after} and position <= {up_to}"
        return self.table.set_null("payload", predicate, {_dropped(entity, channel): up_to})

    def count(self, entity: str) -> int:
        """Landed events of an entity, from the log alone."""
        files = self.table.file_statistics().filter(pl.col("partition.entity_name") == entity)
        return int(files["num_records"].sum())

    def newest(self, entity: str, channel: str, count: int) -> pa.Table:
        """The entity's last events on a channel, newest first, without payload and replay id."""
        last = self.last_positions(channel).get(entity)
        if last is None:
            return pa.table({})
        shown = [name for name in RAW_EVENTS.names if name not in ("payload", "replay_id", "channel", "entity_name")]
        rows = self.table.scan(shown, f"{_of(entity, channel)} and position > {last - 50 * count}")
        return rows.sort_by([("position", "descending")]).slice(0, count)

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
        if self._have_none(entity, channel, after, up_to, committed):
            return self.table.schema.empty_table().select(list(columns))
        where = f"{_of(entity, channel)} and position > {after} and position <= {up_to}"
        if committed is not None:
            first, last = (time.astimezone(UTC).isoformat() for time in committed)
            where += f" and commit_timestamp >= timestamp '{first}' and commit_timestamp <= timestamp '{last}'"
        return self.table.scan(columns, where)

    def _have_none(
        self, entity: str, channel: str, after: int, up_to: int, committed: tuple[datetime, datetime] | None
    ) -> bool:
        """Whether the log alone tells that there are no such events: planning a scan of all files takes longer."""
        found = self.table.file_statistics().filter(
            (pl.col("partition.entity_name") == entity)
            & (pl.col("max.position") > after)
            & (pl.col("min.position") <= up_to)
            & _may_hold(channel)
        )
        if committed is not None and not found.is_empty():
            first, last = (time.astimezone(UTC) for time in committed)
            # A writer may keep the greatest time with fewer digits.
            late = pl.col("max.commit_timestamp") + timedelta(seconds=1) >= first
            found = found.filter((late & (pl.col("min.commit_timestamp") <= last)).fill_null(True))
        return found.is_empty()

    def origins(self, entity: str, positions: Sequence[int]) -> pa.Table:
        """`position`, `transaction_key`, `change_origin` of the entity's events at these positions (few), on any
        channel: the key tells those of different channels apart."""
        listed = ", ".join(str(position) for position in positions) or "-1"
        name = entity.replace("'", "''")
        noted = ["position", "transaction_key", "change_origin"]
        return self.table.scan(noted, f"entity_name = '{name}' and position in ({listed})")

    def last_commit_timestamp(self, channel: str, position: int) -> datetime | None:
        """Newest commit time among the channel's last events up to a position; None when there are none.

        Told by the log but for files that go on beyond the position: a damaged file of one entity, which a cut of all
        must not depend on, is left out.
        """
        of_channel = self.table.file_statistics().filter(_may_hold(channel) & (pl.col("min.position") <= position))
        whole = of_channel.filter(pl.col("max.position") <= position)
        near_the_end = pl.col("max.position") > pl.col("max.position").max() - 1_000
        newest: datetime | None = whole.filter(near_the_end).select(pl.col("max.commit_timestamp").max()).item()
        beyond = of_channel.filter(pl.col("max.position") > position).select(pl.col("min.position").min()).item()
        times = [newest]
        if beyond is not None:
            quoted = channel.replace("'", "''")
            within = f"channel = '{quoted}' and position >= {beyond} and position <= {position}"
            with suppress(TableDamaged):
                times += self.table.scan(["commit_timestamp"], within)["commit_timestamp"].to_pylist()
        return max((time for time in times if time is not None), default=None)

    def record_ids_after(self, entity: str, channel: str, position: int) -> set[str]:
        """Record ids that the entity's events after a position name."""
        rows = self.table.scan(["record_ids"], f"{_of(entity, channel)} and position > {position}")
        return {record_id for ids in rows["record_ids"].to_pylist() for record_id in ids}

    def _resume_of_rows(self, channel: str, position: int) -> ResumePoint:
        """Where to resume by what was landed alone: before the last event's replay id, whose events are known."""
        quoted = channel.replace("'", "''")
        for reach in (1_000, position):
            rows = self.table.scan(
                ["position", "replay_id", "event_id", "payload"],
                f"channel = '{quoted}' and position > {position - reach} and position <= {position}",
            ).sort_by("position")
            ids = rows["replay_id"].to_pylist()
            before = [replay_id for replay_id in ids if replay_id != ids[-1]]
            if before or reach >= position:
                break
        if not ids:
            return ResumePoint()
        last = rows.filter(pc.field("replay_id") == ids[-1])
        marks = (
            DeliveredEvent(row["event_id"], "", row["payload"] or b"", row["replay_id"], 0).mark
            for row in last.to_pylist()
        )
        return ResumePoint(before[-1] if before else None, None, ids[-1], tuple(marks))


def _may_hold(channel: str) -> pl.Expr:
    """Files that may hold events of the channel, by their statistics."""
    return (pl.col("min.channel") <= channel) & (pl.col("max.channel") >= channel)


def _of(entity: str, channel: str) -> str:
    name, of_channel = entity.replace("'", "''"), channel.replace("'", "''")
    return f"entity_name = '{name}' and channel = '{of_channel}'"


def _replay_id(channel: str) -> str:
    return f"replay_id:{channel}"


def _resume(channel: str) -> str:
    return f"resume:{channel}"


def _transaction_key(channel: str) -> str:
    return f"transaction_key:{channel}"


def _organization_id(channel: str) -> str:
    return f"organization_id:{channel}"


def _landed_at(channel: str) -> str:
    return f"landed_at:{channel}"


def _keys_of(channel: str) -> tuple[str, ...]:
    return tuple(name(channel) for name in (_replay_id, _resume, _transaction_key, _organization_id))


def _complete(channel: str) -> str:
    return f"{channel}#complete"


def _dropped(entity: str, channel: str) -> str:
    return f"{channel}#payloads of {entity} dropped"


def organization_of_landed_events(warehouse: Warehouse) -> str | None:
    """The org that events were last landed from, as the kept log tells; None when it does not, or nothing was."""
    table = Table.open(warehouse, NAME)
    return table.latest_metadata_of("organization_id:") if table else None


def payloads(warehouse: Warehouse, entity: str, channel: str, positions: Sequence[int]) -> list[dict[str, Any]]:
    """`position`, `schema_id` and `payload` of the entity's events at these positions (few), in position order."""
    listed = ", ".join(str(position) for position in positions)
    rows = RawEvents.open(warehouse).table.scan(
        ["position", "schema_id", "payload"], f"{_of(entity, channel)} and position in ({listed})"
    )
    return sorted(rows.to_pylist(), key=lambda row: row["position"])
