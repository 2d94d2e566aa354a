"""A disk that is full: each side of the org refuses for as long, says why, loses nothing, and goes on by itself. And an
org that is stopped while it works: who still waits is refused in the same form."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from sfcdc_assets.emulator.errors import DatabaseFullError, OrgStoppingError
from sfcdc_assets.emulator.org.database import Database
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.traffic.traffic import TrafficGenerator
from sfcdc_assets_tests.emulator.platform_event_client import EventClient, event_client
from sfcdc_assets_tests.emulator.rest_server import rest_client
from sfcdc_assets_tests.eventually import BOUND_SECONDS, eventually

ENOUGH_PAGES = 1_000_000
LARGE = {"Name": "Large", "Description": "x" * 30_000}


@contextmanager
def full(database: Database) -> Iterator[None]:
    """No page more than the file has: SQLite answers then as it does on a full disk."""
    ((pages,),) = database.rows("PRAGMA page_count")
    database.rows(f"PRAGMA max_page_count = {pages}")
    try:
        yield
    finally:
        database.rows(f"PRAGMA max_page_count = {ENOUGH_PAGES}")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventClient]:
    with event_client(tmp_path_factory.mktemp("org")) as client:
        yield client


def test_what_cannot_be_written_is_undone_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = Database(tmp_path / "org.db")
    with database.transaction():
        database.execute("CREATE TABLE kept (value TEXT)")
        database.execute("INSERT INTO kept VALUES ('first')")
    with full(database), caplog.at_level(logging.WARNING):
        for _ in range(3):
            with (
                pytest.raises(DatabaseFullError, match=r"org\.db cannot be written: .* full\. Free"),
                database.transaction(),
            ):
                database.execute("INSERT INTO kept VALUES (?)", ("x" * 100_000,))
            assert database.row("SELECT COUNT(*) FROM kept") == (1,)
    assert len(caplog.messages) == 1
    with database.transaction():
        database.execute("INSERT INTO kept VALUES (?)", ("x" * 100_000,))
    assert database.row("SELECT COUNT(*) FROM kept") == (2,)
    database.close()


def test_rest_and_pubsub_refuse_until_there_is_space(client: EventClient) -> None:
    org = client.org
    last = org.last_commit_number
    event = client.producer_event(Order_Number__c="1")
    with full(org.database):
        refused = client.rest.post("/sobjects/Account", LARGE)
        assert (refused.status_code, refused.json()[0]["errorCode"]) == (503, "SERVER_UNAVAILABLE")
        assert "Free some space on that disk" in refused.json()[0]["message"]
        with pytest.raises(grpc.RpcError) as error:
            client.publish(*[event] * 200)
        assert error.value.code() is grpc.StatusCode.INTERNAL
        assert dict(error.value.trailing_metadata())["error-code"].endswith("service.unavailable")
    assert org.last_commit_number == last
    created = client.rest.post("/sobjects/Account", LARGE)
    assert created.status_code == 201
    ((transaction),) = org.transactions(after=last)
    assert [change.record_id for change in transaction.changes] == [created.json()["id"]]
    assert client.publish(event).results[0].replay_id


def test_traffic_waits_for_space_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    org = EmulatedOrg(tmp_path, seed=1)
    traffic = TrafficGenerator(org)
    with full(org.database), caplog.at_level(logging.WARNING):
        traffic.start(10_000)
        eventually(lambda: caplog.messages, "a warning of the full disk")
    made = traffic.transactions
    eventually(lambda: traffic.transactions > made, "traffic that goes on")
    traffic.stop()
    org.close()


def test_what_runs_while_the_org_is_taken_over_is_refused(tmp_path: Path) -> None:
    database = Database(tmp_path / "org.db")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT SUM(i) FROM n"
    refused: list[type[BaseException]] = []
    running = threading.Event()

    def run(read: Callable[[], object]) -> None:
        with database.lock:
            running.set()
            try:
                read()
            except OrgStoppingError as error:
                refused.append(type(error))

    reads: list[Callable[[], object]] = [
        lambda: database.row(endless),
        lambda: list(database.stream(endless)),
    ]
    for read in reads:
        running.clear()
        thread = threading.Thread(target=run, args=(read,), daemon=True)
        thread.start()
        assert running.wait(BOUND_SECONDS)
        with database.taken_over():
            pass
        thread.join(BOUND_SECONDS)
    assert refused == [OrgStoppingError] * len(reads)
    database.close()
    with pytest.raises(OrgStoppingError, match="is being stopped"), database.transaction():
        pass
    with pytest.raises(OrgStoppingError):
        database.row("SELECT 1")


def test_a_request_to_an_org_that_has_ended_is_refused_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    org = EmulatedOrg(seed=1)
    with rest_client(org) as client:
        assert client.get("/limits").status_code == 200
        org.close()
        refused = client.query("SELECT Id FROM Account")
        assert (refused.status_code, refused.json()[0]["errorCode"]) == (503, "SERVER_UNAVAILABLE")
    assert [record for record in caplog.records if record.exc_info] == []
