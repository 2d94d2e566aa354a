"""Which notifications and reads made a record's row in the state of a PushTopic, and what of it is suspect, from the
tables alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from sfcdc_assets.event_channels.push_topics.known_record import Known, Stamp, Standing
from sfcdc_assets.event_channels.push_topics.state_rows import CARRIED, ID, columns_of, field_columns, stamp_of_event
from sfcdc_assets.event_channels.push_topics.value_chain import LEFT, READ, Link, Observation, reads_of, value_chain
from sfcdc_assets.explain.explain_event import opened
from sfcdc_assets.explain.explanation import EXPLANATION, NotExplained, landing_columns, replay_text, texts_of
from sfcdc_assets.lake.delta.conditions import literal, literal_time
from sfcdc_assets.lake.tables.audits import last_audits
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.landing_commit import LandingCommit, landing_commits
from sfcdc_assets.lake.tables.lost_checkpoints import known_losses
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.times import utc_or_none
from sfcdc_assets.salesforce.record_id import to_18_characters
from sfcdc_assets.settings.channel_kinds import folder_of, table_of

_ABOUT = ("position", "replay_id", "created_date", "received_at", "event_id", "event_type", CARRIED)


def explain_topic_record(warehouse: Warehouse, channel: str, record_id: str, field: str | None = None) -> pl.DataFrame:
    """Return the chain of one field's values in a record of a PushTopic, or of all fields', as `EXPLANATION`.

    Of earlier reads of the topic's query, only what the row still has of them is known. The last value of each field
    says what is suspect; a field of which nothing is known has one row without a value. `record_id` may have 15
    characters. Raises `NotExplained` for a channel, record or field that the tables lack.
    """
    events, record_id = opened(warehouse, channel), to_18_characters(record_id)
    state = PushTopicState.open(warehouse, folder_of(channel))
    known = state.known([record_id]).get(record_id) if state else None
    rows = _notifications(events, record_id)
    if known is None and not rows:
        raise NotExplained.no_record(channel, folder_of(channel), record_id)
    columns = _columns(events, state, channel, field)
    applied = state.applied(channel) if state else 0
    observations = [*_observations(rows, list(columns)), *reads_of(known or Known())]
    commits = landing_commits(warehouse, table_of(channel), channel, [row["position"] for row in rows])
    by_position = {row["position"]: row for row in rows}
    of_record = list(_suspects(warehouse, channel, events, known, [row for row in rows if row["position"] > applied]))
    explained: list[dict[str, Any]] = []
    for name, type_ in columns.items():
        links = value_chain(observations, name)
        suspects = [*of_record, *_misfits(rows, name, links)]
        if not links:
            unknown = "no notification has carried it, and no read of the topic's query has brought it"
            explained.append({"Id": record_id, "field": name, "suspect": "; ".join([unknown, *suspects])})
            continue
        texts = texts_of(pa.array([link.value for link in links], type_))
        for link, text in zip(links, texts, strict=True):
            about = _about(channel, link, by_position, commits)
            suspect = "; ".join(suspects) or None if link is links[-1] else None
            explained.append({**about, "Id": record_id, "field": name, "value": text, "suspect": suspect})
    return pl.DataFrame(explained, schema=EXPLANATION).sort("valid_from", "position", "field", nulls_last=True)


def _notifications(events: EventTable, record_id: str) -> list[dict[str, Any]]:
    """Return those of the record, as rows of `push_topic_events`."""
    names = [field.name for field in field_columns(events.table.schema)]
    if ID not in names:
        return []
    columns = [*_ABOUT, "_rescued_data", *names]
    rows: list[dict[str, Any]] = events.table.scan(columns, f'"{ID}" = {literal(record_id)}').to_pylist()
    return [row for row in rows if row["event_type"] is not None]


def _columns(
    events: EventTable, state: PushTopicState | None, channel: str, field: str | None
) -> Mapping[str, pa.DataType]:
    """Return the columns that are explained, with their types. Raises `NotExplained`."""
    known = {each.name: each.type for each in field_columns(events.table.schema) if each.name != ID}
    if state is not None:
        known |= {name: state.table.schema.field(name).type for name in state.fields if name != ID}
    if field is None:
        return known
    wanted = columns_of([field], list(known))
    if not wanted:
        raise NotExplained.no_field(channel, field, list(known))
    return {name: known[name] for name in wanted}


def _observations(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Observation]:
    for row in rows:
        carried = columns_of(row[CARRIED] or (), names)
        yield Observation(stamp_of_event(row), row["event_type"], {name: row.get(name) for name in carried})


def _about(
    channel: str, link: Link, rows: Mapping[int, Mapping[str, Any]], commits: Mapping[int, LandingCommit]
) -> dict[str, Any]:
    """Return what set a value. A read has the position of the newest notification that it stands for."""
    observation = link.set_by
    row = rows.get(observation.stamp.position) if observation.kind not in (READ, LEFT) else None
    return {
        "valid_from": utc_or_none(observation.at_ms),
        "valid_to": None if link.until is None else utc_or_none(link.until.at_ms),
        "change_type": observation.kind,
        "position": observation.stamp.position,
        "change_origin": channel if row is not None else f"query of {channel}",
        "event_id": row["event_id"] if row is not None else None,
        "replay_id": replay_text(row["replay_id"]) if row is not None else None,
        "received_at": row["received_at"] if row is not None else None,
        **landing_columns(commits.get(observation.stamp.position) if row is not None else None),
    }


def _suspects(
    warehouse: Warehouse,
    channel: str,
    events: EventTable,
    known: Known | None,
    not_folded: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield why the record's values may not be those that it has in the org."""
    if known is not None and known.standing[1] is Standing.LEFT:
        yield (
            f"the topic's query has not found the record since {_said(utc_or_none(known.left_at_ms))}: it left the "
            "filter, or was deleted outside of it, and what changed since raised no notification"
        )
    if not_folded:
        yield f"{len(not_folded)} of its notifications are landed and not in its row yet: the next tick folds them"
    checked = last_audits(warehouse).get(channel)
    if checked is None:
        yield "the topic's query was never asked, so changes that raised no notification are not known"
    lost = [loss.checkpoint for loss in known_losses(warehouse, channel)]
    if lost and (checked is None or lost[0].lost_at > checked):
        yield (
            f"the channel's checkpoint was lost at {_said(lost[0].lost_at)}, and the topic's query was not asked "
            "since: notifications may be missing"
        )
    unread = _unreadable(events, checked)
    if unread:
        yield f"{unread} notifications of the topic could not be read, and any may be of this record"


def _unreadable(events: EventTable, checked: datetime | None) -> int:
    """Notifications that name no record, since the query was last asked."""
    if not events.problems():
        return 0
    has_id = ID in events.table.schema.names
    since = f" and received_at > {literal_time(checked)}" if checked else ""
    nameless = f' and "{ID}" is null' if has_id else ""
    return int(events.table.scan(["position"], f"_problem is not null{nameless}{since}").num_rows)


def _misfits(rows: Sequence[Mapping[str, Any]], column: str, links: Sequence[Link]) -> Iterator[str]:
    """Values of the field that fit no column, in notifications newer than the last value."""
    last: Stamp | None = links[-1].set_by.stamp if links else None
    for row in rows:
        rescued = json.loads(row["_rescued_data"] or "{}")
        names = [name for name in rescued if column in columns_of([name], [column])]
        if names and (last is None or stamp_of_event(row) >= last):
            yield f"a value of the notification at position {row['position']} does not fit its column and is not here"


def _said(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
