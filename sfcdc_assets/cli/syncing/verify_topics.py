"""The part of `sfcdc verify` that compares the state of PushTopics with their queries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

from rich.table import Table

from sfcdc_assets.cli.terminal.output import Screen
from sfcdc_assets.event_channels.tables.filter_check import Lands, TopicReport, verify_topic
from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import WATERMARK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.sensors.open_channels import OneSubscription, OpenChannels
from sfcdc_assets.org_connection.open_org import open_org
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.settings.channel_kinds import folder_of
from sfcdc_assets.settings.settings import Settings, load_settings


class Compares(Protocol):
    """`check_topic` or `verify_topic`."""

    def __call__(
        self, warehouse: Warehouse, org: OrgConnection, lander: Lands, channel: str, visibility_seconds: float
    ) -> TopicReport:
        """Compare one topic with the org."""


def topic_channels(settings: Settings, wanted: Sequence[str]) -> list[str]:
    """Return the configured channels of these PushTopics, of all where none is named. Raises `SettingsError` for a name
    that no channel has."""
    known = {folder_of(channel): channel for channel in settings.channels if has_state(channel)}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise SettingsError("--topic", f"no configured channel is /topic/{unknown[0]}", f"Known are: {names}")
    return [channel for name, channel in known.items() if not wanted or name in wanted]


def compare_topics(
    wanted: Sequence[str], compare: Compares = verify_topic, channels: OpenChannels | None = None
) -> list[TopicReport]:
    """Return a report for each wanted topic, or for all that are configured. Connects only where there is one.
    `channels`: the caller's, which stay open."""
    settings = load_settings()
    chosen = topic_channels(settings, wanted)
    if not chosen:
        return []
    warehouse = Warehouse(settings.warehouse)
    warehouse.check_writable()
    with open_org(warehouse, settings) as org, ExitStack() as stack:
        lander: Lands
        if channels is not None:
            lander = OneSubscription(channels, settings, WATERMARK)
        else:
            lander = stack.enter_context(Poller(warehouse, org, math.inf, WATERMARK))
        return [compare(warehouse, org, lander, channel, settings.visibility_seconds) for channel in chosen]


def show_topics(reports: Sequence[TopicReport], most: int) -> None:
    """Print a line for each topic, then the first differences."""
    console = Screen()
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
