"""`updated` and `deleted`: their windows, their limits, and a completeness mark that waits for open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.clock import ManualClock
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.org.settings import DAY, OrgSettings
from sfcdc_assets_tests.emulator.rest_server import RestClient, rest_client

MINUTE = 60_000
HOUR = 60 * MINUTE


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(30_000)  # in the middle of a minute
    return clock


@pytest.fixture
def org(clock: ManualClock) -> EmulatedOrg:
    return EmulatedOrg(clock=clock, seed=3, objects=whole_org(), settings=OrgSettings(token_lifetime=DAY))


@pytest.fixture
def client(org: EmulatedOrg) -> Iterator[RestClient]:
    with rest_client(org) as client:
        yield client


def text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def shown(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000+0000")


def ask(client: RestClient, what: str, start: int, end: int, entity: str = "Account") -> requests.Response:
    return client.get(f"/sobjects/{entity}/{what}", params={"start": text(start), "end": text(end)})


def body(client: RestClient, what: str, start: int, end: int, entity: str = "Account") -> dict[str, Any]:
    answer = ask(client, what, start, end, entity)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: requests.Response) -> tuple[int, str, str]:
    (error,) = answer.json()
    return answer.status_code, error["errorCode"], error["message"]


def create(org: EmulatedOrg, **values: object) -> str:
    with org.transaction() as work:
        return work.create("Account", {"Name": "n", **values})


def test_the_mark_stays_at_the_start_of_the_oldest_open_transaction(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    begun = clock()
    held = org.long_transactions.begin()
    late = held.create("Account", {"Name": "late"})
    clock.advance(2 * HOUR)
    early = create(org)
    answer = body(client, "updated", begun - HOUR, clock() + HOUR)
    assert answer == {"ids": [early], "latestDateCovered": shown(begun - 30_000)}
    assert body(client, "deleted", begun - HOUR, clock() + HOUR)["latestDateCovered"] == shown(begun - 30_000)
    held.commit()
    following = datetime.strptime(answer["latestDateCovered"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    answer = body(client, "updated", int(following) * 1000, clock() + HOUR)
    assert answer == {"ids": [late, early], "latestDateCovered": shown(clock() - 30_000)}


def test_the_mark_can_even_be_before_the_window(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    begun = clock()
    org.long_transactions.begin()
    clock.advance(3 * HOUR)
    answer = body(client, "updated", clock() - HOUR, clock())
    assert answer == {"ids": [], "latestDateCovered": shown(begun - 30_000)}


def test_the_mark_trails_by_what_rest_does_not_show_yet_and_by_stale_stamps_that_are_to_come(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    def covered() -> str:
        return body(client, "updated", clock() - HOUR, clock() + HOUR)["latestDateCovered"]

    assert covered() == shown(clock() - 30_000)
    org.faults.arm(Fault.STALE_MODSTAMP, behind=300)
    assert covered() == shown(clock() - 30_000 - 5 * MINUTE)
    org.faults.disarm(Fault.STALE_MODSTAMP)
    org.settings = replace(org.settings, rest_delay=10 * MINUTE)
    assert covered() == shown(clock() - 30_000 - 10 * MINUTE)
    org.settings = replace(org.settings, rest_delay=0, longest_transaction=7 * MINUTE)
    assert covered() == shown(clock() - 30_000 - 7 * MINUTE)


def test_seconds_do_not_count_and_a_window_is_a_minute_at_least(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    record_id = create(org)
    minute = clock() - 30_000
    assert body(client, "updated", minute + 59_000, minute + MINUTE)["ids"] == [record_id]
    assert body(client, "updated", minute - MINUTE, minute + 59_000)["ids"] == []
    message = "startDate must be at least one minute before endDate"
    assert refused(ask(client, "updated", minute, minute + 59_000)) == (400, "INVALID_REPLICATION_DATE", message)
    assert refused(ask(client, "deleted", minute, minute - HOUR)) == (400, "INVALID_REPLICATION_DATE", message)


def test_updated_goes_back_30_days_and_deleted_15(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    for what, days in (("updated", 30), ("deleted", 15)):
        assert ask(client, what, clock() - days * DAY, clock()).status_code == 200
        assert refused(ask(client, what, clock() - days * DAY - MINUTE, clock())) == (
            400,
            "INVALID_REPLICATION_DATE",
            "startDate before org replication enabled date or earliest date available",
        )


def test_a_trimmed_log_of_deletes_moves_what_is_available(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    trimmed = clock() - 30_000 - HOUR
    org.settings = replace(org.settings, deletes_known_since=trimmed)
    assert body(client, "deleted", trimmed, clock())["earliestDateAvailable"] == shown(trimmed)
    assert refused(ask(client, "deleted", trimmed - MINUTE, clock()))[1] == "INVALID_REPLICATION_DATE"
    assert ask(client, "updated", trimmed - MINUTE, clock()).status_code == 200


def test_too_many_ids_are_refused(org: EmulatedOrg, clock: ManualClock, client: RestClient) -> None:
    org.settings = replace(org.settings, most_replicated_ids=2)
    ids = [create(org) for _ in range(3)]
    span = clock() - HOUR, clock() + HOUR
    assert refused(ask(client, "updated", *span))[:2] == (400, "EXCEEDED_ID_LIMIT")
    assert ask(client, "deleted", *span).status_code == 200
    with org.transaction() as work:
        for record_id in ids:
            work.delete("Account", record_id)
    assert refused(ask(client, "deleted", *span))[1] == "EXCEEDED_ID_LIMIT"


@pytest.mark.parametrize("entity", ["AccountShare", "LoginHistory", "AsyncApexJob", "ContentDocumentLink"])
def test_an_object_that_is_not_replicateable_is_refused(client: RestClient, clock: ManualClock, entity: str) -> None:
    assert client.get(f"/sobjects/{entity}/describe").json()["replicateable"] is False
    for what in ("updated", "deleted"):
        answer = ask(client, what, clock() - HOUR, clock(), entity)
        assert answer.status_code == 400
        assert answer.json()[0]["message"] == f"sObject type {entity} is not replicable"


def test_rows_of_a_history_are_listed_by_when_they_were_made(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    create(org)
    (row,) = org.records("AccountHistory")
    assert body(client, "updated", clock() - HOUR, clock() + HOUR, "AccountHistory")["ids"] == [row["Id"]]


def test_a_record_that_left_the_bin_keeps_the_time_of_its_delete(
    org: EmulatedOrg, clock: ManualClock, client: RestClient
) -> None:
    gone, kept = create(org), create(org)
    clock.advance(HOUR)
    with org.transaction() as work:
        work.delete("Account", gone)
    deleted_at = clock()
    clock.advance(3 * HOUR)
    for purged_shown in (0, DAY):
        org.settings = replace(org.settings, purged_shown=purged_shown)
        with org.transaction() as work:
            work.hard_delete("Account", gone if purged_shown == 0 else kept)
    listed = body(client, "deleted", deleted_at - HOUR, clock() + HOUR)["deletedRecords"]
    assert listed == [
        {"id": gone, "deletedDate": shown(deleted_at)},
        {"id": kept, "deletedDate": shown(clock())},
    ]
