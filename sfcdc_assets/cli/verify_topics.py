"""The part of `sfcdc verify` that compares the state of PushTopics with their queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from rich.console import Console
from rich.table import Table

from sfcdc_assets.channel_kinds import folder_of
from sfcdc_assets.config import Settings, load_settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.landing.connect_for import connect_for
from sfcdc_assets.pipeline.landing.lander import Poller
from sfcdc_assets.pipeline.landing.patience import WATERMARK
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.pipeline.push_topics.filter_check import Lands, TopicReport, verify_topic
from sfcdc_assets.pipeline.push_topics.fold import has_state


class Compares(Protocol):
    """`check_topic` or `verify_topic`."""

    def __call__(
        self, warehouse: Warehouse, org: OrgConnection, lander: Lands, channel: str, visibility_seconds: float
    ) -> TopicReport: ...


def topic_channels(settings: Settings, wanted: Sequence[str]) -> list[str]:
    """The configured channels of these PushTopics, of all where none is named. Raises `SettingsError` for a name that
    no channel has."""
    known = {folder_of(channel): channel for channel in settings.channels if has_state(channel)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise SettingsError("--topic", f"no configured channel is /topic/{unknown[0]}", f"Known are: {names}")
    return [channel for name, channel in known.items() if not wanted or name in wanted]


def compare_topics(wanted: Sequence[str], compare: Compares = verify_topic) -> list[TopicReport]:
    """A report for each wanted topic, or for all that are configured. Connects only where there is one."""
    settings = load_settings()
    chosen = topic_channels(settings, wanted)
    if not chosen:
        return []
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    connect = partial(connect_for, warehouse, settings)
    with connect() as org, Poller(warehouse, org, math.inf, WATERMARK) as lander:
        return [compare(warehouse, org, lander, channel, settings.visibility_seconds) for channel in chosen]


def show_topics(reports: Sequence[TopicReport], most: int) -> None:
    """A line for each topic, then the first differences."""
    console = Console()
    columns = ("query", "table", "left", "returned", "not known", "changed", "in motion", "requests")
    table = Table("topic", *columns, title="PushTopics", title_justify="left")
    for report in reports:
        counts = (
            report.in_org,
            report.in_table,
            report.left,
            report.returned,
            report.added,
            report.changed,
            report.in_motion,
            report.requests,
        )
        table.add_row(report.topic, *(f"{count:,}" for count in counts))
    console.print(table)
    differences = [difference for report in reports for difference in report.differences]
    for difference in differences[:most]:
        console.print(str(difference), markup=False, highlight=False)
