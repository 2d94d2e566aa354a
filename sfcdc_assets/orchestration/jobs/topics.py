"""The job `check_topics`: ask the queries of PushTopics what their notifications do not say."""

import math
from collections.abc import Iterator

import dagster as dg

from sfcdc_assets.event_channels.tables.filter_check import TopicReport, check_topic
from sfcdc_assets.event_channels.tables.fold import Folded, has_state
from sfcdc_assets.landing.poll_timeouts import WATERMARK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.orchestration.assets.keys import PUSH_TOPIC_STATE_KEY
from sfcdc_assets.orchestration.assets.push_topic_state import state_materialization
from sfcdc_assets.orchestration.checks.topics import NAME, result_of
from sfcdc_assets.orchestration.jobs.run_config import OF_THE_ORG
from sfcdc_assets.orchestration.resources import LakeResource, OrgResource
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.settings import load_settings


@dg.op(out=dg.Out(dg.Nothing))
def ask_queries(
    context: dg.OpExecutionContext, lake: LakeResource, org: OrgResource
) -> Iterator[dg.AssetCheckEvaluation | dg.AssetMaterialization | dg.Output[None]]:
    """Mark the records that left the filters, and take over what was not notified; a topic that cannot be asked does
    not stop the others, and fails the run at its end."""
    warehouse, settings = lake.warehouse(), load_settings()
    reports: list[TopicReport] = []
    failed: dict[str, Exception] = {}
    run_id = context.run_id
    with org.connect(warehouse) as connected, Poller(warehouse, connected, math.inf, WATERMARK, run_id) as lander:
        for channel in (each for each in settings.event_channels if has_state(each)):
            try:
                report = check_topic(warehouse, connected, lander, channel, settings.visibility_seconds)
            except SfcdcError as error:
                context.log.error(f"{channel}: {error}")
                failed[channel] = error
                continue
            reports.append(report)
            context.log.info(
                f"{channel}: {report.left} records left the filter, {report.returned} returned, {report.added} were "
                f"not known, {report.changed} had changed without a notification; the query finds {report.in_org}"
            )
            if not report.is_equal:
                yield state_materialization(warehouse, Folded(channel, report.position, report.position))
    result = result_of(reports, failed, passed=True)
    yield dg.AssetCheckEvaluation(PUSH_TOPIC_STATE_KEY, NAME, result.passed, result.metadata, severity=result.severity)
    if failed:
        raise dg.Failure("; ".join(map(str, failed.values())), allow_retries=False)
    yield dg.Output(None)


@dg.graph(
    name="check_topics",
    description="Ask each PushTopic's own query: mark what left its filter, which no notification says, and take over "
    "what was not notified.",
)
def check_topics_graph() -> None:
    """Compose the steps of the job `check_topics`."""
    ask_queries()


CHECK_TOPICS = check_topics_graph.to_job(tags=OF_THE_ORG, executor_def=dg.in_process_executor)
