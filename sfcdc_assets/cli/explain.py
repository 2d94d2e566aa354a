"""`sfcdc explain`: who set this value, and where an event lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import polars as pl
import typer

from sfcdc_assets.cli.terminal.fitting_table import Column, print_table
from sfcdc_assets.cli.terminal.output import say
from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.explain.explain import explain_record
from sfcdc_assets.explain.explain_event import explain_event
from sfcdc_assets.explain.explain_topic import explain_topic_record
from sfcdc_assets.explain.explanation import NotExplained
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.salesforce.record_id import is_salesforce_id
from sfcdc_assets.settings.channel_kinds import feeds_entities, kind_of, table_of
from sfcdc_assets.settings.settings import load_settings

_SHOWN = 200
"""Characters of a value in the table."""
_LEFT_OUT = "--json has all."

_OF_ENTITY = (
    Column("since (UTC)"),
    Column("field"),
    Column("value", folds=True),
    Column("change"),
    Column("by", 1),
    Column("transaction", 4),
    Column("origin", 3),
    Column("position", 2),
)
_OF_TOPIC = (
    Column("since (UTC)"),
    Column("field"),
    Column("value", folds=True),
    Column("change"),
    Column("position", 1),
    Column("replay id", 3),
    Column("run", 4),
    Column("suspect", 2, folds=True),
)
_OF_EVENT = (Column("field"), Column("value", folds=True))


def explain(
    *,
    entity: Annotated[
        str,
        typer.Argument(
            metavar="ENTITY",
            help="Name the object as its API does, such as Account; or a channel, such as /topic/Energy, "
            "/event/Order__e or /u/Orders.",
        ),
    ],
    record_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Name the record by its Id, 15 or 18 characters; an event by its id, its replay id, or @ and its "
            "position, such as @17.",
        ),
    ],
    field: Annotated[
        str | None, typer.Argument(metavar="[FIELD]", help="Show this field only; left out, all fields are shown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
) -> None:
    """Show every value that a field, or a whole record, has had: since when, by whom, in which transaction, from where.

    Of a record of a PushTopic: which notifications and reads made it, and what is suspect. Of an event: where it lies,
    which commit and run landed it, what it says, and why it could not be read. Users have their names where User is
    copied. Makes no API calls. Times are UTC.
    """
    warehouse = Warehouse(load_settings().warehouse)
    channel = _channel(entity)
    is_of_topic = channel is not None and has_state(channel) and is_salesforce_id(record_id)
    if channel is None:
        found = explain_record(warehouse, entity, record_id, field)
    elif is_of_topic:
        found = explain_topic_record(warehouse, channel, record_id, field)
    else:
        found = explain_event(warehouse, channel, record_id, field)
    if as_json:
        say(found.write_ndjson(), nl=False)
    elif channel is None:
        print_table(None, _OF_ENTITY, [_of_entity(each) for each in found.iter_rows(named=True)], left_out=_LEFT_OUT)
    elif is_of_topic:
        print_table(None, _OF_TOPIC, [_of_topic(each) for each in found.iter_rows(named=True)], left_out=_LEFT_OUT)
    else:
        _print_events(channel, found)


def _channel(entity: str) -> str | None:
    """Return the channel with a table of its own that is named in the place of an entity. Raises `NotExplained`."""
    if ":" not in entity and "/" not in entity:
        return None
    try:
        kind_of(entity)
    except ValueError as error:
        raise NotExplained(str(error), "An entity is named as its API does, such as Account") from error
    if feeds_entities(entity):
        raise NotExplained(
            f"The events of {entity} are explained by the records that they change",
            "Name the entity and the record: sfcdc explain Account 001...",
        )
    return entity


def _print_events(channel: str, found: pl.DataFrame) -> None:
    for event in found.partition_by("position", maintain_order=True):
        facts = event.row(0, named=True)
        say(_where(channel, facts))
        values = [(each["field"], _value(each)) for each in event.iter_rows(named=True) if each["field"] is not None]
        if values:
            print_table(None, _OF_EVENT, values, left_out=_LEFT_OUT)


def _where(channel: str, facts: Mapping[str, Any]) -> str:
    """Say in sentences where an event lies."""
    by = f" by {facts['commit_user']}" if facts["commit_user"] else ""
    made = f"{facts['change_type']} {_time(facts['valid_from'])}{by}"
    lines = [
        f"{channel}, event {facts['event_id']}: position {facts['position']}, replay id {facts['replay_id']}",
        f"  {made}, received {_time(facts['received_at'])}",
    ]
    if facts["landed_version"] is None:
        lines.append(f"  landed in {table_of(channel)} by a commit that its log does not have any more")
    else:
        run = f"run {facts['run_id']}" if facts["run_id"] else "a sensor's tick or a command"
        batch = f"positions {facts['landed_first']} to {facts['landed_last']}"
        lines.append(f"  landed in {table_of(channel)}, version {facts['landed_version']} ({batch}), by {run}")
    if facts["suspect"]:
        lines.append(f"  not all of it is in columns: {facts['suspect']}")
    return "\n".join(lines)


def _of_entity(link: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _time(link["valid_from"]),
        link["field"],
        f"{link['value_name']} ({_value(link)})" if link["value_name"] else _value(link),
        link["change_type"],
        link["commit_user_name"] or link["commit_user"] or "",
        link["transaction_key"] or "",
        link["change_origin"] or "",
        str(link["position"]),
    )


def _of_topic(link: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _time(link["valid_from"]),
        link["field"],
        _value(link),
        link["change_type"] or "",
        "" if link["position"] is None else str(link["position"]),
        link["replay_id"] or "",
        link["run_id"] or "",
        link["suspect"] or "",
    )


def _value(link: Mapping[str, Any]) -> str:
    return "" if link["value"] is None else str(link["value"])[:_SHOWN]


def _time(moment: Any) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
