"""Whether what is known of PushTopics' records is what their queries find, as an asset check of `push_topic_state`."""

import math
from collections.abc import Mapping, Sequence

import dagster as dg

from sfcdc_assets.event_channels.tables.filter_check import TopicReport, verify_topic
from sfcdc_assets.event_channels.tables.fold import has_state
from sfcdc_assets.landing.poll_timeouts import WATERMARK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.table_metadata import rows_value

NAME = "matches_the_topics_query"
_COLUMNS = ("in_org", "in_table", "left", "returned", "added", "changed", "in_motion", "requests")


def build_topic_checks(assets: OrgAssets, channels: Sequence[str]) -> list[dg.AssetChecksDefinition]:
    """Build the check, where a topic is among the channels."""
    if not any(has_state(channel) for channel in channels):
        return []

    @dg.asset_check(
        asset=assets.keys.push_topic_state,
        name=NAME,
        description="Compares what is known of the records with what each topic's own query finds, and fails for what "
        "differs: records that left the filter and are not marked yet, and changes that raised no notification. The "
        "job `check_topics` marks and takes over what it finds.",
    )
    def matches_the_topics_query() -> dg.AssetCheckResult:
        """Pass when nothing differs."""
        warehouse, settings = assets.warehouse(), assets.settings()
        with assets.connect(warehouse) as connected, Poller(warehouse, connected, math.inf, WATERMARK) as lander:
            reports = [
                verify_topic(warehouse, connected, lander, channel, settings.visibility_seconds)
                for channel in settings.event_channels
                if has_state(channel)
            ]
        return result_of(reports, {}, passed=all(each.is_equal for each in reports))

    return [matches_the_topics_query]


def result_of(reports: Sequence[TopicReport], failed: Mapping[str, Exception], *, passed: bool) -> dg.AssetCheckResult:
    """Return what comparisons found. `failed`: channel -> why its topic could not be compared."""
    rows = [(each.topic, *(getattr(each, name) for name in _COLUMNS)) for each in reports]
    return dg.AssetCheckResult(
        passed=passed and not failed,
        severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
        metadata={
            "left_the_filter": sum(each.left for each in reports),
            "returned": sum(each.returned for each in reports),
            "not_known_before": sum(each.added for each in reports),
            "changed_without_notification": sum(each.changed for each in reports),
            "first_differences": [each.place for report in reports for each in report.differences][:20],
            "by_topic": rows_value(("topic", *_COLUMNS), rows),
            **({"not_compared": {channel: str(error) for channel, error in failed.items()}} if failed else {}),
        },
    )
