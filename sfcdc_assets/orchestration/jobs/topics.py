"""The job `check_topics`: ask the queries of PushTopics what their notifications do not say."""

import math
from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.event_channels.tables.filter_check import TopicReport, check_topic
from sfcdc_assets.event_channels.tables.fold import Folded, has_state
from sfcdc_assets.landing.poll_timeouts import WATERMARK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.assets.push_topic_state import state_materialization
from sfcdc_assets.orchestration.checks.topics import NAME, result_of
from sfcdc_assets.orchestration.jobs.run_config import job_of_one_step
from sfcdc_assets.orchestration.org_assets import OrgAssets
from sfcdc_assets.orchestration.resources import with_scope
from sfcdc_assets.runtime.errors import SfcdcError, counted

CHECK_TOPICS = "check_topics"


def build_check_topics(assets: OrgAssets) -> dg.JobDefinition:
    """Build the job."""

    @dg.op(name=assets.name("ask_queries"), out=dg.Out(dg.Nothing), required_resource_keys=with_scope(assets))
    def ask_queries(
        context: dg.OpExecutionContext,
    ) -> Iterator[dg.AssetCheckEvaluation | dg.AssetMaterialization | dg.Output[None]]:
        """Mark the records that left the filters, and take over what was not notified; a topic that cannot be asked
        does not stop the others, and fails the run at its end."""
        warehouse, settings = assets.warehouse(), assets.settings()
        reports: list[TopicReport] = []
        failed: dict[str, Exception] = {}
        run_id = context.run_id
        with (
            assets.connect(warehouse) as connected,
            Poller(warehouse, connected, math.inf, WATERMARK, run_id) as lander,
        ):
            for channel in (each for each in settings.event_channels if has_state(each)):
                try:
                    report = check_topic(warehouse, connected, lander, channel, settings.visibility_seconds)
                except SfcdcError as error:
                    context.log.error(f"{channel}: {error}")
                    failed[channel] = error
                    continue
                reports.append(report)
                context.log.info(
                    f"{channel}: {counted(report.left, 'record')} left the filter, {report.returned} returned, "
                    f"{report.added} were not known, {report.changed} had changed without a notification; "
                    f"the query finds {report.in_org}"
                )
                if not report.is_equal:
                    yield state_materialization(assets, warehouse, Folded(channel, report.position, report.position))
        result = result_of(reports, failed, passed=True)
        key = assets.keys.push_topic_state
        yield dg.AssetCheckEvaluation(key, NAME, result.passed, result.metadata, severity=result.severity)
        if failed:
            raise dg.Failure("; ".join(map(str, failed.values())), allow_retries=False)
        yield dg.Output(None)

    return job_of_one_step(
        assets,
        CHECK_TOPICS,
        "ask_queries",
        ask_queries,
        "Ask each PushTopic's own query: mark what left its filter, which no notification says, and take over "
        "what was not notified.",
        assets.tags,
    )
