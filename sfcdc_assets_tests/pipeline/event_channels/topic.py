"""A PushTopic of an emulated org, its channel as it is landed, and the changes that a test makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sfcdc_assets.event_channels.tables.filter_check import TopicReport, check_topic, verify_topic
from sfcdc_assets.event_channels.tables.fold import fold_topic
from sfcdc_assets.lake.tables.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import POLL
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.pipeline.emulated_pipeline import EmulatedPipeline

CHANNEL = "/topic/Energy"
QUERY = "SELECT Id, Name, Industry, NumberOfEmployees, SLAExpirationDate__c FROM Account WHERE Industry = 'Energy'"


class Topic:
    """A topic of an org, its channel as it is landed, and the changes that a test makes."""

    def __init__(self, pipeline: EmulatedPipeline, org: OrgConnection, lander: Poller) -> None:
        self.pipeline = pipeline
        self.warehouse = Warehouse(str(pipeline.warehouse))
        self.org = org
        self.lander = lander

    def define(self, query: str = QUERY, name: str = "Energy", **values: Any) -> str:
        topics = self.pipeline.server.cometd.topics.push_topics
        self.topic_id = topics.create({"Name": name, "Query": query, "ApiVersion": 60.0, **values}).id
        return self.topic_id

    def change(self, kind: str, *arguments: Any) -> Any:
        with self.pipeline.org.transaction() as work:
            return getattr(work, kind)("Account", *arguments)

    def land(self) -> None:
        self.lander.land(CHANNEL)

    def fold(self) -> dict[str, dict[str, Any]]:
        """Land and fold; the rows by Id."""
        self.land()
        fold_topic(self.warehouse, CHANNEL)
        return self.rows()

    def rows(self) -> dict[str, dict[str, Any]]:
        state = PushTopicState.open(self.warehouse, "Energy")
        return {row["Id"]: row for row in state.table.rows()} if state else {}

    def check(self) -> TopicReport:
        self.pipeline.org.clock.advance(60_000)
        return check_topic(self.warehouse, self.org, self.lander, CHANNEL, load_settings().visibility_seconds)

    def verify(self) -> TopicReport:
        self.pipeline.org.clock.advance(60_000)
        return verify_topic(self.warehouse, self.org, self.lander, CHANNEL, load_settings().visibility_seconds)


@pytest.fixture
def topic(make_pipeline: Callable[..., EmulatedPipeline]) -> Iterator[Topic]:
    with ExitStack() as opened:
        pipeline = make_pipeline("Account", records=3)
        for each in list(pipeline.org.records("Account")):
            with pipeline.org.transaction() as work:
                work.update("Account", str(each["Id"]), {"Industry": "Banking"})
        org = opened.enter_context(connect(load_settings()))
        lander = opened.enter_context(Poller(Warehouse(str(pipeline.warehouse)), org, 0.2, POLL))
        yield Topic(pipeline, org, lander)
