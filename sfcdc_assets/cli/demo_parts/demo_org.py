"""The demo's emulated org, in a process of its own, so that it changes while its changes are followed: 40 objects, five
of which have change events, and beside them a PushTopic, a generic channel and a platform event."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, TypeVar

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.events.first_change import make_first_change
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.emulator.traffic.traffic import FULL_MIX, TrafficGenerator
from sfcdc_assets.emulator.traffic.traffic_holes import HoleMix, TrafficHoles
from sfcdc_assets.runtime.errors import SfcdcError

TOPIC, GENERIC, EVENT = "/topic/OpenOpportunities", "/u/Announcements", "/event/Order_Event__e"
CHANNELS = ("/data/ChangeEvents", TOPIC, GENERIC, EVENT)
"""All that the demo follows."""
SELECTED = ("Name", "StageName", "Amount")
STREAMED = ("Account", "Case", "Contact", "Lead", "Opportunity")
"""So many objects may be selected for change events without an add-on."""
POLLED = (
    *("ActivityFieldHistory", "AsyncApexJob", "Attachment", "Campaign", "CampaignMember", "CaseStatus"),
    *("ContentDocument", "ContentDocumentLink", "Contract", "Event", "EventRelation", "Invoice_Statement__c"),
    *("LoginHistory", "OpportunityContactRole", "OpportunityLineItem", "Pricebook2", "PricebookEntry", "Product2"),
    *("RecordActionHistory", "RecordType", "TabDefinition", "Task", "User", "UserRole"),
    *("AccountHistory", "CaseHistory", "ContactHistory", "Invoice_Statement__History", "OpportunityFieldHistory"),
    *("AccountShare", "CaseShare", "Invoice_Statement__Share", "OpportunityShare", "AccountFeed", "CaseFeed"),
)
"""All others: with stamps of every kind and without, in the recycle bin or gone at once, read by Bulk API, by queries
or through their parents."""
COPIED = (*STREAMED, *POLLED)
PART = 20
"""Of the records of an object that has change events, a polled one has as its own the twentieth part; companions have
what theirs makes them have. Likewise of changes: for so many events that are to be made, one transaction of them."""
QUERY = f"SELECT Id, {', '.join(SELECTED)} FROM Opportunity WHERE StageName != 'Closed Won'"
OF_A_ROUND = 50
"""Texts pushed and platform events published with each round of traffic."""
Answer = TypeVar("Answer")
HOLES = HoleMix(overflow=0.5, wildcard=0.5, garbled_header=0.5)
"""Few that make a whole table suspect: each has the table copied again, which is what the demo would wait for."""


class DemoOrgEnded(SfcdcError):
    """The process of the demo's org ended by itself."""

    def __init__(self) -> None:
        super().__init__("The demo's emulated org ended by itself; the lines above say why. `sfcdc demo` begins again.")


@dataclass(frozen=True)
class OrgFacts:
    """What an org has done so far, and what it holds: the truth that the tables are compared with."""

    transactions: int
    changes: Counter[str]
    """Record changes by kind."""
    holes: Counter[str]
    published: int
    delivered: int
    entities: tuple[str, ...]
    pushed: Counter[str]
    """Texts sent to the generic channel."""
    orders: Counter[str]
    """Numbers of the platform events that were published."""
    matching: Mapping[object, tuple[object, ...]]
    """Id -> selected fields of what the topic's query finds."""


@dataclass(frozen=True)
class Served:
    """An org that is up: where REST is, the settings of a client, and how many records its objects have."""

    url: str
    environment: Mapping[str, str]
    records: int


class DemoOrg:
    """The calling side: what is asked is answered in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def served(self) -> Served:
        """Wait until it is up. To be asked once, first of all."""
        return self._answer(Served)

    def begin_round(self, events: int) -> None:
        """Have it make so many change events; returns at once."""
        self._ask(events)

    def end_round(self) -> int:
        """Wait until a round that was begun is over; transactions made so far."""
        return self._answer(int)

    def facts(self) -> OrgFacts:
        """Return the facts of an org that makes no round."""
        self._ask(None)
        return self._answer(OrgFacts)

    def _ask(self, question: int | None) -> None:
        try:
            self._connection.send(question)
        except BrokenPipeError as error:
            raise DemoOrgEnded from error

    def _answer(self, kind: type[Answer]) -> Answer:
        try:
            found = self._connection.recv()
        except EOFError as error:
            raise DemoOrgEnded from error
        assert isinstance(found, kind)
        return found


@contextmanager
def demo_org(directory: Path, records: int, seed: int, holes: float) -> Iterator[DemoOrg]:
    """Yield an org with so many records of each object that has change events, until the context is left. It ends with
    this process, however that ends: its connection is closed then. Raises `DemoOrgEnded`, here and with each question.
    """
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=_serve, args=(theirs, directory, records, seed, holes), daemon=True)
    process.start()
    theirs.close()
    try:
        yield DemoOrg(ours)
    finally:
        ours.close()
        process.join(10.0)


def _serve(connection: Connection, directory: Path, records: int, seed: int, holes: float) -> None:
    with suppress(EOFError, BrokenPipeError):  # nobody asks any more
        _answer_all(connection, directory, records, seed, holes)


def _answer_all(connection: Connection, directory: Path, records: int, seed: int, holes: float) -> NoReturn:
    """Answer in the process: fill the org, then a round for each number that comes and the facts for each None."""
    objects = [each for each in whole_org() if each.name in COPIED]
    settings = OrgSettings(diff_convention="mixed")
    org = EmulatedOrg(directory / "org.db", seed=seed, objects=objects, settings=settings)
    org.selected_entities = list(STREAMED)
    part = -(-records // PART)
    counts = {each.name: records if each.name in STREAMED else part for each in objects if each.companion is None}
    org.populate(counts, seed)
    with EmulatorServer(org, directory=directory) as server:
        make_first_change(org, server.bus)
        streams = _Streams(server, org)
        traffic = TrafficGenerator(
            org, seed, FULL_MIX, bus=server.bus, holes=holes, hole_mix=HOLES, of=lambda: STREAMED
        )
        beside = TrafficGenerator(org, seed + 1, FULL_MIX, of=lambda: POLLED)
        total = sum(org.count(each.name) for each in objects)
        connection.send(Served(server.rest_url, server.client_environment(), total))
        number = 0
        while True:
            events = connection.recv()
            if events is None:
                connection.send(_facts(org, server, streams, traffic.transactions + beside.transactions, traffic.holes))
            else:
                number += 1
                beside.run(transactions=-(-events // PART))
                traffic.run(events=events)
                streams.send(number)
                connection.send(traffic.transactions + beside.transactions)


def _facts(
    org: EmulatedOrg, server: EmulatorServer, streams: _Streams, transactions: int, holes: TrafficHoles
) -> OrgFacts:
    found = (each for each in org.records("Opportunity") if each["StageName"] != "Closed Won")
    return OrgFacts(
        transactions=transactions,
        changes=Counter(change.change_type for each in org.transactions() for change in each.changes),
        holes=holes.made,
        published=server.bus.last_number,
        delivered=server.meter.total,
        entities=COPIED,
        pushed=streams.pushed,
        orders=streams.orders,
        matching={each["Id"]: tuple(each[name] for name in SELECTED) for each in found},
    )


class _Streams:
    """A PushTopic, a generic channel and a platform event. Made before the org changes."""

    def __init__(self, server: EmulatorServer, org: EmulatedOrg) -> None:
        self._server = server
        topics = server.cometd.topics
        topics.push_topics.create({"Name": TOPIC.removeprefix("/topic/"), "Query": QUERY, "ApiVersion": 60.0})
        self._channel = topics.channels.create({"Name": GENERIC})
        self.pushed: Counter[str] = Counter()
        self.orders: Counter[str] = Counter()
        # Each channel has something to bring from the start: nobody waits to hear from it.
        self.send(0)
        first = str(next(iter(org.records("Opportunity")))["Id"])
        with org.transaction() as work:
            work.update("Opportunity", first, {"Amount": 1})

    def send(self, number: int) -> None:
        """Send a round's worth of both that a program sends."""
        texts = [f"round {number}: announcement {each}" for each in range(OF_A_ROUND)]
        self.pushed.update(texts)
        self._server.cometd.topics.channels.push(self._channel.id, [{"payload": text} for text in texts], ())
        orders = [f"{number}-{each}" for each in range(OF_A_ROUND)]
        self.orders.update(orders)
        for order in orders:
            self._server.publisher.publish(EVENT.removeprefix("/event/"), {"Order_Number__c": order})
