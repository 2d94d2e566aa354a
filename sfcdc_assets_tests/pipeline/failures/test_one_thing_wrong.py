"""One thing is wrong for a day: what has nothing to do with it goes on, and what it costs the org is bounded.

A row is one call of the org's, one thing of ours or one event, and one way in which it fails; beside it stands what
goes on, and what it may cost. The sensor of a channel ticks, every 15 seconds for some minutes and some times each hour
after that; runs that it asks for are done and may fail; a second channel is read beside it. Every two hours an account
changes, and contacts. Deliveries, requests, logins, sessions and runs are counted. When it is over, all has landed,
once and in order, and the tables equal the org.

`make soak` has the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.settings import OrgSettings
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.retry_pause import OF_THE_LOGIN
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.orchestration.sensors.due import LONGEST_RETRY_SECONDS
from sfcdc_assets.orchestration.sensors.open_channels import OpenChannels
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.failures.ways_to_fail import (
    USED_UP,
    Arm,
    no_bulk_jobs_left,
    of_late_login,
    of_login,
    of_message,
    of_ours,
    of_rest,
    of_schemas,
    of_stream,
    suspect,
    suspect_and,
    unanswered,
    used_up,
)
from sfcdc_assets_tests.pipeline.landing.test_deliveries_spent import FAILURES
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, stream

pytestmark = pytest.mark.slow

SECOND = "/data/Second__chn"
HOURS, AN_EVENT = 24, 2
"""How long it lasts, and the hours between two changes."""
HOUR_MS, A_TICK_MS = 3_600_000, 15_000
TICKS_AT_FIRST, TICKS_AN_HOUR = 20, 3
"""The latter twice: on the hour, and when no pause after a failed run of before lasts."""
CHANGED, UNTOUCHED = 4, 7
"""So many accounts are changed, in turn; and the number of one that is not."""
DELIVERIES = 3
"""For each event, at most."""
SESSIONS = 4
"""Of the Streaming API that are open at once: for each channel one that is read, and one that the org has not heard the
end of."""
WAITING = 10
"""Events that come at once when it begins."""
RECOVERS_HOURS = 8
"""As long as the longest pause after so many failures, at most."""

LANDS, SECOND_LANDS, APPLIES, OTHER_EQUAL, CUT_ADVANCES = (
    "all events land",
    "those of a second channel do",
    "what had landed before is applied",
    "another entity equals the org after the longest pause of runs, each time",
    "the cut advances",
)
ALL = frozenset({LANDS, SECOND_LANDS, APPLIES, OTHER_EQUAL, CUT_ADVANCES})
NOTHING_NEW = frozenset({APPLIES})
"""No event comes; what had landed before is applied."""


@dataclass(frozen=True)
class Price:
    """What it costs in a day: requests but those to log in, logins, calls of the Streaming API, and runs."""

    requests: int = 1_000
    logins: int = 50
    calls: int = 0
    runs: int = 100

    @classmethod
    def of(cls, asked: Sequence[str], *, runs: int) -> Price:
        logins = sum(each.endswith("/token") for each in asked)
        calls = sum("/cometd" in each for each in asked)
        return cls(len(asked) - logins - calls, logins, calls, runs)

    def __le__(self, most: Price) -> bool:
        return all(paid <= most_of_it for paid, most_of_it in zip(astuple(self), astuple(most), strict=True))


OF_REFUSED_TOKENS = Price(logins=150)
"""One a minute at most: the org says of each token that it has expired."""
OF_LOGINS = Price(logins=800)
"""Of each session one every ten minutes at most, with all the tries of a request."""
OF_COMETD = Price(calls=700)


@dataclass(frozen=True)
class Row:
    """What is wrong, what goes on, what it costs at most; `strikes`: what must have happened; and the
    protocol over which the channels are read."""

    what: str
    arm: Arm
    goes_on: frozenset[str] = ALL
    price: Price = Price()
    strikes: RestFault | None = None
    transport: str = "pubsub"


REFUSED = (RestFault.REFUSED, RestFault.UNAUTHORIZED, RestFault.SERVER_ERROR)
GARBAGE = (RestFault.GARBAGE, RestFault.CUT_OFF, RestFault.BODY_CUT)
LATE = (RestFault.SLOW, RestFault.TIMEOUT)
NO_MORE = (RestFault.REQUEST_LIMIT, RestFault.TOO_MANY_REQUESTS, RestFault.UNAVAILABLE)
WAYS = (*REFUSED, *GARBAGE, *LATE, *NO_MORE)
CALLS = {
    "describes": "/sobjects",
    "reads by id": "/composite",
    "queries": "/query",
    "bulk jobs": "/jobs",
    "limits": "/limits",
    "the setup": "/tooling",
    "userinfo": "/services/oauth2/userinfo",
    "all of REST": "",
}


def rest(call: str, way: RestFault) -> Row:
    arm = (unanswered if way in LATE else of_rest)(way, CALLS[call])
    # Reading an entity reads its records too.
    read = (Fault.INTERNAL_ERROR,) if call == "reads by id" else (Fault.INTERNAL_ERROR, Fault.GARBLED_HEADER)
    price = OF_REFUSED_TOKENS if way is RestFault.UNAUTHORIZED else Price()
    return Row(f"{call}: {way}", suspect_and(arm, *read), price=price, strikes=way)


def login(way: RestFault) -> Row:
    return Row(f"logins: {way}", of_login(way), NOTHING_NEW, OF_LOGINS, way)


TABLE = [
    Row("streams are refused", of_stream(Fault.STREAM_REFUSED), NOTHING_NEW),
    Row("deliveries are used up", of_stream(Fault.STREAM_REFUSED, "subscription.limit.exceeded"), NOTHING_NEW),
    Row("tokens are refused by streams", of_stream(Fault.CALL_REFUSED, "service.auth.error"), NOTHING_NEW),
    Row("the channel may not be read", of_stream(Fault.CALL_REFUSED, "topic.meta.permission"), NOTHING_NEW),
    Row("streams are unavailable", of_stream(Fault.UNAVAILABLE), NOTHING_NEW),
    Row("streams break", of_stream(Fault.STREAM_RESET), NOTHING_NEW),
    Row("streams are silent", of_stream(Fault.SILENT_STREAM), NOTHING_NEW),
    Row("answers of streams are late", of_stream(Fault.LATE_ANSWER, seconds="200")),
    *(Row(f"schemas are {way}", of_schemas(way)) for way in ("refused", "half", "garbage", "another's", "slow")),
    Row("requests are used up", used_up),
    Row("bulk jobs are used up", suspect_and(no_bulk_jobs_left, Fault.GARBLED_HEADER)),
    *(rest(call, way) for call in CALLS for way in WAYS),
    *(login(way) for way in WAYS if way not in LATE),
    Row("logins are not answered", of_late_login, NOTHING_NEW, OF_LOGINS, RestFault.TIMEOUT),
    *(
        Row(f"{channel} is {way}", of_message(channel, way), NOTHING_NEW, OF_COMETD, transport="cometd")
        for way in ("garbage", "slow", "used up", "refused")
        for channel in USED_UP
    ),
    *(
        Row(f"an event has {fault}", suspect(fault))
        for fault in (Fault.GARBLED_HEADER, Fault.GARBLED_BODY, Fault.UNKNOWN_CHANGE_TYPE, Fault.INTERNAL_ERROR)
    ),
    *(Row(f"ours: {name}", of_ours(failure), frozenset()) for name, failure in FAILURES.items()),
]
SOONER = {
    "streams are refused",
    "streams break",
    "schemas are half",
    "requests are used up",
    "bulk jobs: refused",
    "queries: garbage",
    "reads by id: server_error",
    "the setup: unauthorized",
    "logins: request_limit",
    "/meta/connect is garbage",
}
"""What CI has: of each kind of call one, and of each way."""
EACH = [row if row.what in SOONER else pytest.param(row, marks=pytest.mark.soak) for row in TABLE]


@pytest.fixture
def server(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    monkeypatch.setenv("SFCDC_TRANSPORT", row.transport)
    with stream(tmp_path, records=8, entities=("Account", "Contact")) as opened, code_servers(opened) as start:
        opened.org.channels.create("Second__chn")
        opened.org.channels.add_member("Second__chn", "Contact")
        server = start()
        server.channels = OpenChannels(forgotten_seconds=float("inf"))  # an hour is no time here
        yield server


class Day:
    """The sensor's ticks with the runs that they ask for, and the reading of a second channel."""

    def __init__(self, server: CodeServer) -> None:
        self.server, self.org = server, server.stream
        self.second = self.org.adopt(ChannelReader(self.org.warehouse, self.org.connected, SECOND, SETTLE))
        self.runs = 0
        self.most_sessions = 0
        self._contacts = [str(record["Id"]) for record in list(self.org.org.records("Contact"))[:2]]
        self._title = ""
        self.late: list[str] = []
        """Titles of contacts that were not in the tables then."""

    def tick(self, *, with_runs: bool = True) -> None:
        """One of each, whatever becomes of it."""
        with suppress(SfcdcError, RuntimeError):  # `FAILURES` raise the latter
            result = self._of_sensor()
            for request in (result.run_requests or ()) if with_runs else ():
                self.runs += 1
                self.server.do_and_note(request)
        with suppress(SfcdcError, RuntimeError):
            self.second.land(TICK)
        self.most_sessions = max(self.most_sessions, self.org.server.cometd.open_sessions)

    def _of_sensor(self) -> dg.SensorResult:
        try:
            return tick(ASSETS, self.server.instance, CHANNEL, self.server.open(), TICK)
        except OF_THE_LOGIN:
            self.server.channels.drop(CHANNEL)
            raise

    def ticks(self, number: int, *, with_runs: bool = True) -> None:
        for _ in range(number):
            self.org.clock.advance(A_TICK_MS)
            self.tick(with_runs=with_runs)

    def hours(self, number: int, *, changes: bool) -> None:
        for hour in range(number):
            if changes and hour % AN_EVENT == 0:
                self.change(hour)
            began = self.org.clock()
            self.ticks(TICKS_AN_HOUR)
            self.org.clock.advance(round(LONGEST_RETRY_SECONDS * 1000))
            self.ticks(TICKS_AN_HOUR)
            self.look()
            self.org.clock.advance(began + HOUR_MS - self.org.clock())

    def change(self, number: int) -> None:
        """An account, and contacts."""
        self.org.update(number % CHANGED)
        self._title = f"of {number}"
        with self.org.org.transaction() as work:
            for contact in self._contacts:
                work.update("Contact", contact, {"Title": self._title})

    def look(self) -> None:
        """Whether the last change of contacts is in their table."""
        found = {row["Title"] for row in self.rows("Contact") if row["Id"] in self._contacts}
        if found != {self._title}:
            self.late.append(self._title)

    def landed(self) -> dict[str, set[int]]:
        """Positions of the events of each channel, those that cannot be read too."""
        events = (*self.org.landed(), *rows_of(self.org.warehouse, "quarantine"))
        return {of: {each["position"] for each in events if each["channel"] == of} for of in (CHANNEL, SECOND)}

    def rows(self, entity: str) -> list[dict[str, Any]]:
        return rows_of(self.org.warehouse, f"current_state/{entity}")

    def cut(self) -> int:
        return max(cut.position for cut in open_cut(str(self.org.root)).cuts)


@pytest.mark.parametrize("row", EACH, ids=lambda row: row.what.replace(" ", "_").replace("/", ""))
def test_what_has_nothing_to_do_with_it_goes_on_and_its_price_is_bounded(
    row: Row, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    org, day = server.stream, Day(server)
    requests = Requests(org.server, monkeypatch)
    day.change(0)
    day.ticks(8)
    day.look()
    assert not day.late
    org.update(UNTOUCHED, Phone="landed before")
    day.ticks(3, with_runs=False)
    requests.take_all()
    cut, delivered, before, day.runs = day.cut(), org.delivered, day.landed(), 0
    with ExitStack() as stack:
        row.arm(org, stack)
        for number in range(WAITING):
            org.update(number % CHANGED)
        day.ticks(TICKS_AT_FIRST)
        day.hours(HOURS, changes=True)
        meanwhile, asked = day.landed(), requests.take_all()
        paid = Price.of(asked, runs=day.runs)
        (phone,) = (each["Phone"] for each in day.rows("Account") if each["Id"] == org.accounts[UNTOUCHED])
        goes_on = {APPLIES: phone == "landed before", OTHER_EQUAL: not day.late, CUT_ADVANCES: day.cut() > cut}
        assert open_cut(str(org.root)).arrow("Contact").num_rows  # the newest cut can be asked, whatever is wrong
    org.server.faults.disarm()
    org.server.rest_faults.disarm()
    org.org.settings = OrgSettings()
    day.hours(1, changes=False)
    after = day.landed()
    goes_on |= {LANDS: meanwhile[CHANNEL] == after[CHANNEL], SECOND_LANDS: meanwhile[SECOND] == after[SECOND]}
    made = sum(len(each) for each in after.values()) - sum(len(each) for each in before.values())
    assert not row.goes_on - {name for name, it_does in goes_on.items() if it_does}
    assert paid <= row.price
    assert org.delivered - delivered <= DELIVERIES * made
    assert day.most_sessions <= SESSIONS
    assert row.strikes is None or org.server.rest_faults.struck(row.strikes)
    event_ids = [(each["channel"], each["event_id"]) for each in org.landed() if each["event_id"]]
    assert len(event_ids) == len(set(event_ids))
    day.hours(RECOVERS_HOURS, changes=True)  # what an object has become is asked for when it changes
    for entity in ("Contact", "Account"):
        found = {each["Id"]: each for each in day.rows(entity)}
        assert_same_rows(entity, found, expected_rows(org.org, entity))
