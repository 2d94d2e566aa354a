"""The demo's streams beside change events: a PushTopic, a generic channel and a platform event of the emulated org,
filled while it changes, and compared with what it sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sfcdc_assets.channel_kinds import folder_of
from sfcdc_assets.cli.verify_topics import compare_topics
from sfcdc_assets.emulator.org import EmulatedOrg
from sfcdc_assets.emulator.server import EmulatorServer
from sfcdc_assets.lake.event_table import EventTable
from sfcdc_assets.lake.push_topic_state import PushTopicState
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.push_topics.filter_check import check_topic

TOPIC, GENERIC, EVENT = "/topic/OpenOpportunities", "/u/Announcements", "/event/Order_Event__e"
CHANNELS = ("/data/ChangeEvents", TOPIC, GENERIC, EVENT)
"""All that the demo follows."""
SELECTED = ("Name", "StageName", "Amount")
QUERY = f"SELECT Id, {', '.join(SELECTED)} FROM Opportunity WHERE StageName != 'Closed Won'"
OF_A_ROUND = 50
"""Texts pushed and platform events published with each round of traffic."""


class DemoStreams:
    """Made before the org changes."""

    def __init__(self, server: EmulatorServer, org: EmulatedOrg) -> None:
        self._server, self._org = server, org
        topics = server.cometd.topics
        topics.push_topics.create({"Name": TOPIC.removeprefix("/topic/"), "Query": QUERY, "ApiVersion": 60.0})
        self._channel = topics.channels.create({"Name": GENERIC})
        self._pushed: Counter[str] = Counter()
        self._published: Counter[str] = Counter()
        # Each channel has something to bring from the start: nobody waits to hear from it.
        self.send(0)
        first = str(next(iter(org.records("Opportunity")))["Id"])
        with org.transaction() as work:
            work.update("Opportunity", first, {"Amount": 1})

    def send(self, number: int) -> None:
        """A round's worth of both that a program sends."""
        texts = [f"round {number}: announcement {each}" for each in range(OF_A_ROUND)]
        self._pushed.update(texts)
        self._server.cometd.topics.channels.push(self._channel.id, [{"payload": text} for text in texts], ())
        orders = [f"{number}-{each}" for each in range(OF_A_ROUND)]
        self._published.update(orders)
        for order in orders:
            self._server.publisher.publish(EVENT.removeprefix("/event/"), {"Order_Number__c": order})

    def rows(self, warehouse: Warehouse) -> Iterator[tuple[str, str, bool]]:
        """What came of each channel, in words, and whether it is what the org sent. The topic's query is asked first,
        as the job `check_topics` does: what left its filter, or was there before it, no notification says."""
        (found,) = compare_topics([folder_of(TOPIC)], check_topic)
        said = (
            f"{self._landed(warehouse, TOPIC):,} notifications, {found.in_table:,} records known by them, "
            f"{found.left:,} left its filter, {found.added:,} were there before"
        )
        yield TOPIC, said, self._known(warehouse) == self._matching()
        payloads = Counter(self._values(warehouse, GENERIC, "payload"))
        yield GENERIC, f"{payloads.total():,} texts", payloads == self._pushed
        numbers = Counter(self._values(warehouse, EVENT, "Order_Number__c"))
        yield EVENT, f"{numbers.total():,} events", numbers == self._published

    def _matching(self) -> dict[object, tuple[object, ...]]:
        """What the topic's query finds."""
        found = (each for each in self._org.records("Opportunity") if each["StageName"] != "Closed Won")
        return {each["Id"]: tuple(each[name] for name in SELECTED) for each in found}

    @staticmethod
    def _known(warehouse: Warehouse) -> dict[object, tuple[object, ...]]:
        """What the table says that it finds."""
        state = PushTopicState.open(warehouse, folder_of(TOPIC))
        rows = state.table.rows(predicate="not _is_deleted and _left_filter_at is null") if state else []
        return {row["Id"]: tuple(row[name] for name in SELECTED) for row in rows}

    @staticmethod
    def _landed(warehouse: Warehouse, channel: str) -> int:
        table = EventTable.open(warehouse, channel)
        return table.table.count() if table else 0

    @staticmethod
    def _values(warehouse: Warehouse, channel: str, column: str) -> list[str]:
        table = EventTable.open(warehouse, channel)
        return [] if table is None else table.table.scan([column])[column].to_pylist()
