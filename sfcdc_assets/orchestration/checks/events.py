"""Whether the tables of channels that carry no change events are whole: an asset check a kind."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import dagster as dg

from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.lost_checkpoints import KnownLoss, known_losses
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import rows_value
from sfcdc_assets.runtime import clock
from sfcdc_assets.settings.channel_kinds import APPEND_ONLY, ChannelKind, kind_of
from sfcdc_assets.settings.settings import Settings

NAME = "events_are_whole"
SHOWN_FOR = timedelta(days=7)
"""How long a loss that nothing can bridge fails the check; `sfcdc status` names it for good."""


def build_event_checks(assets: OrgAssets, channels: Sequence[str]) -> list[dg.AssetChecksDefinition]:
    """One for each kind among the channels."""
    present = {kind_of(channel) for channel in channels}
    return [_build(assets, kind) for kind in APPEND_ONLY if kind in present]


def _build(assets: OrgAssets, kind: ChannelKind) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=assets.keys.of_events(kind),
        name=NAME,
        description="Fails for a week after a checkpoint was lost when Salesforce may have deleted events that were "
        "not landed; warns of rows with values that fit no column. Asks nothing of the org.",
    )
    def events_are_whole() -> dg.AssetCheckResult:
        return checked(assets.warehouse(), assets.settings(), kind)

    return events_are_whole


def evaluation_of(
    assets: OrgAssets, warehouse: Warehouse, settings: Settings, kind: ChannelKind
) -> dg.AssetCheckEvaluation:
    """Return the check's result now, to be reported beside a materialization."""
    result = checked(warehouse, settings, kind)
    key = assets.keys.of_events(kind)
    return dg.AssetCheckEvaluation(key, NAME, result.passed, result.metadata, severity=result.severity)


def checked(warehouse: Warehouse, settings: Settings, kind: ChannelKind) -> dg.AssetCheckResult:
    """Pass when nothing is missing and every value has a column."""
    now = clock.now()
    shown: list[tuple[object, ...]] = []
    missing, problems = 0, 0
    for channel in (each for each in settings.event_channels if kind_of(each) is kind):
        table = EventTable.open(warehouse, channel)
        losses = [loss for loss in known_losses(warehouse, channel) if _is_missed(loss, now)]
        rows, of_channel = (table.table.count(), table.problems()) if table else (0, 0)
        shown.append((channel, rows, of_channel, "; ".join(map(str, losses)) or "nothing"))
        missing, problems = missing + len(losses), problems + of_channel
    return dg.AssetCheckResult(
        passed=not missing and not problems,
        severity=dg.AssetCheckSeverity.ERROR if missing else dg.AssetCheckSeverity.WARN,
        metadata={
            "losses": missing,
            "rows_with_problems": problems,
            "by_channel": rows_value(("channel", "rows", "rows with problems", "missing"), shown),
        },
    )


def _is_missed(loss: KnownLoss, now: datetime) -> bool:
    return loss.may_miss_events and now - loss.checkpoint.lost_at < SHOWN_FOR
