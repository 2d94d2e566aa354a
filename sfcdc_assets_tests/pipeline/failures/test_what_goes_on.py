"""One thing is wrong for some minutes: what must go on meanwhile, column by column.

Beside each row stand the columns that hold while it lasts, and what it costs the org meanwhile is counted. Afterwards
all hold again, for every row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from sfcdc_assets.consistent_cut import open_cut
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.landing.channel_reader import ChannelReader
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.orchestration.sensors.channel import tick
from sfcdc_assets.runtime.errors import SfcdcError
from sfcdc_assets_tests.orchestration.sensors.code_server import CodeServer, code_servers
from sfcdc_assets_tests.pipeline.failures.test_one_thing_wrong import (
    Arm,
    of_login,
    of_rest,
    of_stream,
    unanswered,
    used_up,
)
from sfcdc_assets_tests.pipeline.lives.lives_tables import rows_of
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.story import Requests
from sfcdc_assets_tests.pipeline.stream import CHANNEL, SETTLE, Stream, stream

SECOND = "/data/Second__chn"
LANDS, SECOND_LANDS, APPLIES, OTHER_EQUAL, CUT_ADVANCES = (
    "events land",
    "those of a second channel do",
    "what has landed is applied",
    "another entity equals the org",
    "the cut advances",
)
NOTHING_NEW = frozenset({APPLIES})
"""No event comes; what had landed before is applied."""
LATE = (RestFault.SLOW, RestFault.TIMEOUT)
SUSPECT_ANSWERS = (RestFault.BODY_CUT, RestFault.GARBAGE, RestFault.REQUEST_LIMIT, *LATE)
MADE, REQUESTS, LOGINS = 7, 300, 24
"""Events that two channels bring while it lasts, and what it may cost the org meanwhile: a run that failed begins again
with each of twenty ticks here, and Dagster's sensor waits between two."""
ALL = frozenset({LANDS, SECOND_LANDS, APPLIES, OTHER_EQUAL, CUT_ADVANCES})


@dataclass(frozen=True)
class Row:
    """What is wrong, and what goes on."""

    what: str
    arm: Arm
    goes_on: frozenset[str] = ALL


def suspect(fault: Fault) -> Arm:
    """An event of an account that cannot be used as it came."""

    def arm(org: Stream, _: ExitStack) -> None:
        org.server.faults.arm(fault)
        org.update(3)

    return arm


def suspect_and_unread(path: str, answer: RestFault) -> Arm:
    """Its record, or the entity, cannot be read back either."""

    def arm(org: Stream, stack: ExitStack) -> None:
        (unanswered if answer in LATE else of_rest)(answer, path)(org, stack)
        suspect(Fault.INTERNAL_ERROR if path == "/composite" else Fault.GARBLED_HEADER)(org, stack)

    return arm


TABLE = [
    Row("streams are refused", of_stream(Fault.STREAM_REFUSED), NOTHING_NEW),
    Row("streams are silent", of_stream(Fault.SILENT_STREAM), NOTHING_NEW),
    Row("schemas are refused", of_stream(Fault.SCHEMA_REFUSED)),
    Row("logins answer garbage", of_login(RestFault.GARBAGE), NOTHING_NEW),
    Row("requests are used up", used_up),
    *(
        Row(f"describes answer {fault}", of_rest(fault, "/sobjects"))
        for fault in (RestFault.BODY_CUT, RestFault.GARBAGE)
    ),
    *(
        Row(f"describes answer {fault}", unanswered(fault, "/sobjects"))
        for fault in (RestFault.SLOW, RestFault.TIMEOUT)
    ),
    *(
        Row(f"an event has {fault}", suspect(fault))
        for fault in (Fault.GARBLED_HEADER, Fault.GARBLED_BODY, Fault.UNKNOWN_CHANGE_TYPE, Fault.INTERNAL_ERROR)
    ),
    *(
        Row(f"{path} answers what is suspect with {fault}", suspect_and_unread(path, fault))
        for path in ("/composite", "/jobs", "/query")
        for fault in SUSPECT_ANSWERS
    ),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CodeServer]:
    with stream(tmp_path, records=4, entities=("Account", "Contact")) as opened, code_servers(opened) as start:
        opened.org.channels.create("Second__chn")
        opened.org.channels.add_member("Second__chn", "Contact")
        yield start()


def touch_contacts(org: Stream, title: str) -> None:
    with org.org.transaction() as work:
        for record in list(org.org.records("Contact"))[:2]:
            work.update("Contact", str(record["Id"]), {"Title": title})


def position(org: Stream, channel: str) -> int:
    return RawEvents.open(org.warehouse).stored_checkpoint(channel).position


def titles(org: Stream) -> set[str]:
    """Of the contacts that were touched."""
    touched = [str(record["Id"]) for record in list(org.org.records("Contact"))[:2]]
    return {row["Title"] for row in rows_of(org.warehouse, "current_state/Contact") if row["Id"] in touched}


def go_on(server: CodeServer, second: ChannelReader, seconds: int, every: int = 15) -> None:
    """Ticks of both channels, and the runs of the first, whatever becomes of them."""
    org = server.stream
    for _ in range(seconds // every):
        org.clock.advance(every * 1000)
        asked_for: list[dg.RunRequest] = []
        with suppress(SfcdcError):
            asked_for += tick(ASSETS, server.instance, CHANNEL, server.open(), TICK).run_requests or ()
        for request in asked_for:
            with suppress(SfcdcError):
                server.do(request)
        with suppress(SfcdcError):
            second.land(TICK)


def contacts_equal_the_org(org: Stream) -> None:
    found = {row["Id"]: row for row in rows_of(org.warehouse, "current_state/Contact") if not row["_is_deleted"]}
    assert_same_rows("Contact", found, expected_rows(org.org, "Contact"))


EACH = [row if number % 3 == 0 else pytest.param(row, marks=pytest.mark.soak) for number, row in enumerate(TABLE)]
"""All of them; CI has every third."""


@pytest.mark.slow
@pytest.mark.parametrize("row", EACH, ids=lambda row: row.what.replace(" ", "_").replace("/", ""))
def test_what_must_go_on_goes_on_while_one_thing_is_wrong(
    row: Row, server: CodeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    org = server.stream
    asked = Requests(org.server, monkeypatch)
    second = org.adopt(ChannelReader(org.warehouse, org.connected, SECOND, SETTLE))
    org.update(0)
    touch_contacts(org, "first")
    server.ticks_and_runs(60)
    second.land(TICK)
    first_cut = cut_of(org)
    org.update(1, Phone="landed before")
    server.ticks(15)
    asked.take_all()
    delivered = org.delivered  # of all subscribers
    with ExitStack() as stack:
        row.arm(org, stack)
        landed, landed_second = position(org, CHANNEL), position(org, SECOND)
        org.update(2)
        touch_contacts(org, "meanwhile")
        go_on(server, second, 300)
        state = {each["Id"]: each for each in rows_of(org.warehouse, "current_state/Account")}
        seen = {
            LANDS: position(org, CHANNEL) > landed,
            SECOND_LANDS: position(org, SECOND) > landed_second,
            APPLIES: state[org.accounts[1]]["Phone"] == "landed before",
            OTHER_EQUAL: titles(org) == {"meanwhile"},
            CUT_ADVANCES: cut_of(org) > first_cut,
        }
        assert not row.goes_on - {name for name, goes_on in seen.items() if goes_on}
        assert open_cut(str(org.root)).arrow("Contact").num_rows  # the newest cut can be asked, whatever is wrong
        assert org.delivered - delivered <= 3 * MADE
        seen_requests = asked.take_all()
        logins = sum(each.endswith("/token") for each in seen_requests)
        assert logins <= LOGINS
        assert len(seen_requests) - logins <= REQUESTS
    org.server.faults.disarm()
    org.server.rest_faults.disarm()
    org.org.settings = type(org.org.settings)()
    go_on(server, second, 3_600, every=90)
    contacts_equal_the_org(org)
    accounts = {each["Id"]: each for each in rows_of(org.warehouse, "current_state/Account")}
    assert_same_rows("Account", accounts, expected_rows(org.org, "Account"))


def cut_of(org: Stream) -> int:
    return max(cut.position for cut in open_cut(str(org.root)).cuts)
