"""An event is malformed in one part: what comes before and after it lands, once and in order, the tables equal the org
again, and the org is asked for no more than it would be for any event in doubt.

A row is a kind of event and one of its parts, in each way of being malformed that is listed. Each malformed event is
between two that are whole, of another entity where there are any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from sfcdc_assets.emulator.definitions.platform_event_definition import event_definition
from sfcdc_assets.entities.entities import entity_states
from sfcdc_assets.lake.tables.event_table import EventTable
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import LandedOnly
from sfcdc_assets.org_connection.org_connection import OrgConnection, connect
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets.settings.channel_kinds import carries_changes
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.orchestration.sensors.code_server import catch_up, snapshot
from sfcdc_assets_tests.pipeline.failures.malformed_events import (
    Spoil,
    Spoiled,
    spoiling,
)
from sfcdc_assets_tests.pipeline.failures.malformed_kinds import (
    CHANGES,
    KINDS,
    LOAD,
    NOTES,
    OF_EVERY_KIND,
    TOPIC,
    Malformed,
)
from sfcdc_assets_tests.pipeline.landing.test_event_landing import push
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.read_tables import landed_rows, rows_of
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

pytestmark = pytest.mark.slow

ENTITIES = {"Account": CHANNEL, "Contact": CHANNEL}
RECORDS = 24
REQUESTS = 40
"""For what two objects take that are described, copied and read back, beside two for each event."""
MOST_TICKS = 20
WITHOUT_A_NUMBER = ("replay id", "event", "message")
"""Parts of what comes over CometD in which the replay id is, and may be missing."""
HEALING = 5
"""Runs at most, twelve minutes apart, after which what is malformed has been read from the org."""
LOSES = ("one byte",)
"""Ways of a replay id that nobody can tell from one. As the last of them it is what a stream of changes is resumed
after, for the group of the next one may be unfinished; that is refused and said to be lost."""
MISLEADS = ("another's prefix", "one that is not there")
"""Ways that name another record than the one that changed, which nobody can tell: its next event corrects that."""


def table() -> Iterator[ParameterSet]:
    for kind, (_, _, parts) in KINDS.items():
        for part in parts:
            at_length = part in OF_EVERY_KIND and not kind.startswith("changes")
            name = f"{kind}, {part}".replace("/", "").replace(" ", "_")
            yield pytest.param(kind, part, marks=[pytest.mark.soak] if at_length else [], id=name)


@dataclass
class Feed:
    """A channel of one kind in a warehouse of its own, read by one process after another."""

    org: Stream
    spoiled: Spoiled
    connected: OrgConnection
    kind: str
    channel: str
    root: Path
    good: list[str] = field(default_factory=list)
    """What the whole events say, in their order."""
    made: int = 0

    def __post_init__(self) -> None:
        self.warehouse = Warehouse(str(self.root))
        self.reader = self._new()
        self.contacts = [str(record["Id"]) for record in self.org.org.records("Contact")]

    def _new(self) -> ChannelReader:
        return ChannelReader(self.warehouse, self.connected, self.channel, SETTLE)

    def update(self, number: int, name: str) -> None:
        """A change of an account."""
        with self.org.org.transaction() as work:
            work.update("Account", self.org.accounts[number], {"Name": name, "AnnualRevenue": float(self.made)})

    def publish(self, spoil: Spoil | None, number: int) -> None:
        """One more event, of a record of its own; a whole one of changes is of the other entity."""
        self.made += 1
        text = f"malformed {self.made}" if spoil else f"whole {self.made}"
        if spoil is None:
            self.good.append(text)
            self._make(text, number, is_whole=True)
            return
        with self.spoiled.next(spoil, notification=self.channel in (TOPIC, LOAD)):
            self._make(text, number, is_whole=False)

    def _make(self, text: str, number: int, *, is_whole: bool) -> None:
        if self.channel == NOTES:
            self.org.server.publisher.publish("Note__e", {"Text__c": text, "Size__c": 1.0, "Due__c": "2024-02-29"})
        elif self.channel == LOAD:
            push(self.org, text, channel=LOAD)
        elif self.channel == CHANNEL and is_whole:
            with self.org.org.transaction() as work:
                work.update("Contact", self.contacts[number % 3 + 1], {"Title": text})
        else:
            self.update(number, text)

    def position(self) -> int:
        if self.channel == CHANNEL:
            return RawEvents.open(self.warehouse).stored_checkpoint(CHANNEL).position
        table = EventTable.open(self.warehouse, self.channel)
        return 0 if table is None else table.stored_checkpoint(self.channel).position

    def tick(self) -> Exception | None:
        try:
            self.last = self.reader.land(TICK)
        except SfcdcError as error:
            return error
        return None

    def ticks(self, count: int, seconds: int = 15) -> list[Exception]:
        errors = []
        for _ in range(count):
            errors.append(self.tick())
            self.org.clock.advance(seconds * 1000)
        return [each for each in errors if each is not None]

    def ticks_until(self, position: int) -> list[Exception]:
        """Three ticks, and more until so much is landed: how much one tick brings is a matter of the machine."""
        errors = self.ticks(3)
        for _ in range(MOST_TICKS):
            if errors or self.position() >= position:
                break
            errors = self.ticks(1, seconds=0)
        return errors

    def restart(self) -> None:
        self.reader.drop()
        self.reader = self._new()

    def texts(self) -> list[str]:
        """What the landed events that are whole say."""
        if self.channel == CHANNEL:
            rows = rows_of(self.warehouse, "current_state/Contact")
            return [row["Title"] for row in rows]
        name = {NOTES: "Text__c", TOPIC: "Name", LOAD: "payload"}[self.channel]
        found = [row[name] for row in landed_rows(self.warehouse, self.channel)]
        return [text for text in found if isinstance(text, str) and text.startswith("whole")]

    def spent(self) -> int:
        return self.org.delivered if self.connected.transport.name == "pubsub" else self.spoiled.sent_over_cometd

    def apply(self) -> None:
        landed = LandedOnly(self.warehouse, {CHANNEL: self.last.complete_through_ms})
        states = entity_states(self.warehouse, ENTITIES, self.org.clock())
        on = Stream(self.org.org, self.org.clock, self.org.server, self.connected, self.root)
        for state in states:
            if state.needs_snapshot:
                snapshot(on, state, landed)
        catch_up(on, ENTITIES, landed)

    def heal(self) -> None:
        """Runs, within an hour, until the tables equal the org."""
        for _ in range(HEALING):
            self.apply()
            with suppress(AssertionError):
                return self.assert_equal_to_the_org()
            self.org.clock.advance(700_000)
            assert not self.ticks(2)
        return self.assert_equal_to_the_org()

    def assert_equal_to_the_org(self) -> None:
        for entity in ENTITIES:
            found = {row["Id"]: row for row in rows_of(self.warehouse, f"current_state/{entity}")}
            expected = expected_rows(self.org.org, entity)
            there = {record_id: row for record_id, row in found.items() if record_id in expected}
            assert_same_rows(entity, there, expected)
            assert not [row["Id"] for row in found.values() if row["_in_doubt"]]
            assert not [row["Id"] for row in found.values() if row["Id"] not in expected and not row["_is_deleted"]]


class Feeds:
    """Those of one org. A row goes on with the warehouse of the row before, if that came through."""

    def __init__(self, org: Stream, spoiled: Spoiled, of: Mapping[str, OrgConnection], folder: Path) -> None:
        self._org, self._spoiled, self._of, self._folder = org, spoiled, of, folder
        self._feed: Feed | None = None
        self._came_through = False
        self._number = 0

    def of(self, kind: str) -> Feed:
        if self._feed is None or self._feed.kind != kind or not self._came_through:
            self.end()
            self._number += 1
            self._org.server.bus.expire()
            self._org.clock.advance(25 * 3_600_000)  # what was sent before is kept no more
            transport, channel, _ = KINDS[kind]
            folder = self._folder / str(self._number)
            self._feed = Feed(self._org, self._spoiled, self._of[transport], kind, channel, folder)
            self._feed.publish(None, 0)
            assert not self._feed.ticks_until(1)
            if channel == CHANNEL:
                self._feed.apply()
                self._feed.assert_equal_to_the_org()
        self._came_through = False
        return self._feed

    def came_through(self) -> None:
        self._came_through = True

    def end(self) -> None:
        if self._feed is not None:
            self._feed.reader.drop()


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Feeds]:
    folder = tmp_path_factory.mktemp("feeds")
    with ExitStack() as stack:
        org = stack.enter_context(stream(folder, records=RECORDS, entities=("Account", "Contact")))
        fields = [
            {"Text__c": {"type": "string"}},
            {"Size__c": {"type": "double"}},
            {"Due__c": {"type": "date"}},
            {"At__c": {"type": "datetime"}},
            {"Done__c": {"type": "boolean"}},
        ]
        note = {"name": "Note__e", "label": "Note", "key_prefix": "e05", "fields": fields}
        org.org.platform_events.define(event_definition(note))
        topics = org.server.cometd.topics
        topics.channels.create({"Name": LOAD})
        query = "SELECT Id, Name, AnnualRevenue FROM Account"
        topics.push_topics.create({"Name": "Names", "Query": query, "ApiVersion": 52.0})
        of = {}
        for transport in ("pubsub", "cometd"):
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv("SFCDC_TRANSPORT", transport)
            of[transport] = stack.enter_context(connect(load_settings()))
        opened = Feeds(org, stack.enter_context(spoiling(org)), of, folder)
        stack.callback(opened.end)
        yield opened


@pytest.mark.parametrize(("kind", "part"), table())
def test_events_that_are_malformed_in_one_part_stop_nothing_and_cost_little(
    kind: str, part: str, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = feeds.of(kind)
    land(feed, KINDS[kind][2][part], Requests(feed.org.server, monkeypatch))
    if not carries_changes(feed.channel):
        assert feed.texts() == feed.good
    feeds.came_through()


@pytest.mark.parametrize("kind", [CHANGES[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in CHANGES[1:])])
def test_the_tables_equal_the_org_after_all_that_can_be_malformed(
    kind: str, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {f"{part}: {way}": make for part, of in KINDS[kind][2].items() for way, make in of.items()}
    heal(feeds, kind, ways, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "part"), [(kind, part) for kind in CHANGES for part in KINDS[kind][2]])
def test_the_tables_equal_the_org_after_what_is_malformed_in_one_part(
    kind: str, part: str, feeds: Feeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    heal(feeds, kind, {f"{part}: {way}": make for way, make in KINDS[kind][2][part].items()}, monkeypatch)


def land(feed: Feed, ways: Malformed, requests: Requests) -> None:
    """Publish an event that is malformed in each of these ways, whole ones between them, and land all of them."""
    spent, position, count = feed.spent(), feed.position(), 2 * len(ways)
    spoils = {way: make(feed.org) for way, make in ways.items()}
    for number, spoil in enumerate(spoils.values()):
        feed.publish(spoil, number % RECORDS)
        feed.publish(None, number)
    assert not feed.ticks_until(position + count)
    assert feed.position() == position + count, "each is landed"
    asked = [each for each in requests.take_all() if "/cometd" not in each]
    assert len(asked) <= 2 * len(ways)
    assert not [each for each in asked if each.endswith("/token")]
    feed.restart()
    lost = [feed.last.lost_checkpoint for _ in range(2) if not feed.ticks(1)]
    is_lost = carries_changes(feed.channel) and list(ways)[-1].endswith(LOSES)
    assert any(lost) is is_lost
    again = feed.position() - position - count
    if feed.kind == CHANGES[1]:
        # Nothing tells of an event without a replay id that it came before, where other messages are around it then.
        parts = KINDS[feed.kind][2]
        without_a_number = [make for part in WITHOUT_A_NUMBER for make in parts[part].values()]
        unnumbered = sum(make in without_a_number for make in ways.values())
        assert is_lost or 0 <= again <= unnumbered, "and no other of them twice"
    else:
        assert is_lost or again == 0, "and none of them twice"
    assert feed.spent() - spent <= 3 * count
    assert not [way for way, spoil in spoils.items() if spoil not in feed.spoiled.struck]


def heal(feeds: Feeds, kind: str, ways: Malformed, patch: pytest.MonkeyPatch) -> None:
    """The same, and runs until the tables equal the org."""
    feed = feeds.of(kind)
    requests = Requests(feed.org.server, patch)
    land(feed, ways, requests)
    for number, way in enumerate(ways):
        if way.endswith(MISLEADS):
            feed.update(number % RECORDS, "at last")
    assert not feed.ticks(2)
    feed.heal()
    asked = [each for each in requests.take_all() if "/cometd" not in each]
    assert len(asked) <= REQUESTS + 2 * len(ways)
    assert not [each for each in asked if each.endswith("/token")]
    feeds.came_through()
