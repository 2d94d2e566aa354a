"""What an explanation is: one row for each value that a field has had, and what set it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pyarrow as pa

from sfcdc_assets.lake.tables.landing_commit import LandingCommit
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.setting_values import nearest
from sfcdc_assets.timeline.value_chain import CHAIN

EXPLANATION = pl.Schema(
    {
        **CHAIN,
        "event_id": pl.String(),
        "replay_id": pl.String(),
        "received_at": pl.Datetime("us", "UTC"),
        "landed_version": pl.Int64(),
        "landed_first": pl.Int64(),
        "landed_last": pl.Int64(),
        "run_id": pl.String(),
        "suspect": pl.String(),
    }
)
"""Of channels with tables of their own. The columns of `CHAIN` are those of an entity's record: `change_type` is the
kind of the event, `commit_user` who published it, where it says so, `change_origin` the channel, or that it was the
topic's query. The event that set the value is at `position` of the channel's table; the Delta version `landed_version`
landed it together with those from `landed_first` to `landed_last`, in the run `run_id`, null where that was a sensor's
tick or a command; all null where the log does not go back as far. `suspect`: why the value may not be the record's, or
the event's, or not all of it; null where nothing speaks against it."""


class NotExplained(SfcdcError):
    """The tables have nothing about what was asked for."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")

    @classmethod
    def no_version(cls, entity: str, record_id: str) -> NotExplained:
        """Return the error that an entity has no such record."""
        return cls(f"{entity} {record_id} has no version in history", "Check the id, and run `sfcdc sync`")

    @classmethod
    def no_field(cls, of: str, field: str, known: Sequence[str]) -> NotExplained:
        """Return the error that an entity, or a channel, has no such field."""
        near = nearest(field, known)
        return cls(
            f"{of} has no field {field}", f"Did you mean {near}?" if near else f"Its fields are {', '.join(known)}"
        )

    @classmethod
    def no_channel(cls, channel: str, known: Sequence[str]) -> NotExplained:
        """Return the error of a channel without a table; `known`: those that have some."""
        there = ", ".join(known) or "none yet; `sfcdc sync` lands what there is"
        return cls(f"No event of {channel} has landed", f"Channels that have events: {there}")

    @classmethod
    def no_event(cls, channel: str, event: str, last: int) -> NotExplained:
        """Return the error that a channel whose last position is `last` has no such event."""
        remedy = f"Name it by its id, its replay id, or @ and its position, which is {last} at most"
        return cls(f"{channel} has no event {event}", remedy)

    @classmethod
    def no_record(cls, channel: str, topic: str, record_id: str) -> NotExplained:
        """Return the error that a PushTopic has no such record."""
        remedy = (
            "Check the id and the topic's filter; `sfcdc sync` lands what there is, and `sfcdc verify --topic "
            f"{topic}` asks the query"
        )
        return cls(f"{channel} has no notification of {record_id}, and no read of its query found it", remedy)


def landing_columns(commit: LandingCommit | None) -> Mapping[str, object]:
    """Return the columns of `EXPLANATION` about the commit that landed an event."""
    return {
        "landed_version": commit.version if commit else None,
        "landed_first": commit.first if commit else None,
        "landed_last": commit.last if commit else None,
        "run_id": commit.run_id if commit else None,
    }


def replay_text(replay_id: bytes) -> str:
    """Return a replay id as `sfcdc explain` shows and takes it: a number as such, other bytes in hexadecimal digits."""
    return replay_id.decode() if replay_id.isdigit() else replay_id.hex()


def texts_of(values: pa.ChunkedArray | pa.Array) -> list[str | None]:
    """Return the texts as the chain of an entity's record has them."""
    series = pl.from_arrow(values)
    assert isinstance(series, pl.Series)
    return series.cast(pl.String).to_list()
