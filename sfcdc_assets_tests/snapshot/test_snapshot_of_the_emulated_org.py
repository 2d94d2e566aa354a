"""Snapshots of the emulated org over real sockets and TLS, compared with the truth field by field."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column, columns
from sfcdc_assets.emulator.events.avro.event_schema import event_schema
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.channel_members import channel_members
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import BulkJobGone, EntityNotReadable
from sfcdc_assets.salesforce.limits import limits
from sfcdc_assets.salesforce.query import count, query_rows
from sfcdc_assets.salesforce.retrieve import retrieve
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.salesforce.simple_salesforce_client import simple_salesforce_client
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.snapshot.pages import begun, page_schema, read_pages, start
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets_tests.simulated_clock import SimulatedClock

SEED = 11
CHANNEL = "/data/ChangeEvents"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    made = EmulatedOrg(seed=SEED)
    made.populate(dict.fromkeys(made.definitions, 40) | {"Account": 130, "Case": 0})
    ids = [record["Id"] for record in made.records("Account")]
    awkward = {
        "Name": 'Comma, "quote"\nand line',
        "Description": " é漢😀\r\nsecond line ",
        "Support_Opens__c": "08:30:00.500",
    }
    with made.transaction() as unit_of_work:
        unit_of_work.update("Account", ids[0], awkward)
        unit_of_work.delete("Account", ids[1])
        unit_of_work.merge("Account", ids[2], (ids[3],))
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(org, tmp_path_factory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as running:
        yield running


@pytest.fixture
def new_session(server, monkeypatch):
    """A session like that of a new process; the polls of a job do not wait."""
    for name in os.environ:
        if name.startswith("SFCDC_"):
            monkeypatch.delenv(name)
    fields = {name.removeprefix("SFCDC_").lower(): value for name, value in server.client_environment().items()}
    return lambda: OrgSession(Settings(_env_file=None, **fields), sleep=lambda _seconds: None)


def columns_of(org: EmulatedOrg, session: OrgSession, entity: str) -> tuple[Column, ...]:
    schema = event_schema(org.definitions[entity])
    return columns(json.loads(schema) if isinstance(schema, str) else schema, describe(session, entity))


def truth(org: EmulatedOrg, entity: str, wanted: tuple[Column, ...]) -> dict[str, dict[str, object]]:
    """The org's records, deleted ones too, in the types of the tables."""

    def typed(value: object, type_: ColumnType) -> object:
        if value is None:
            return None
        if type_ is ColumnType.TIMESTAMP:
            return EPOCH + timedelta(milliseconds=value)
        return date.fromisoformat(value) if type_ is ColumnType.DATE else value

    return {
        record["Id"]: {column.name: typed(record[column.name], column.type) for column in wanted}
        | {
            "_is_deleted": record.get("IsDeleted", False),
            "_system_modstamp": typed(record["SystemModstamp"], ColumnType.TIMESTAMP),
            "_master_record_id": record.get("MasterRecordId"),
        }
        for record in org.records(entity, include_deleted=True)
    }


def begin(session: OrgSession, entity: str, wanted: tuple[Column, ...]) -> SnapshotProgress:
    with clock.using(SimulatedClock(77)):
        return start(session, begun(session, entity, wanted, channel=CHANNEL, position=5, snapshot_number=1))


def by_id(tables: list[pa.Table]) -> dict[str, dict[str, object]]:
    rows = [row for table in tables for row in table.to_pylist()]
    found = {row["Id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(
    "entity", ["Account", "Contact", "Lead", "Opportunity", "Case", "Task", "User", "Invoice_Statement__c"]
)
def test_a_snapshot_equals_the_org(org, new_session, entity):
    with new_session() as session:
        wanted = columns_of(org, session, entity)
        pages = list(read_pages(session, begin(session, entity, wanted), wanted, max_records=50))
    assert by_id([table for table, _ in pages]) == truth(org, entity, wanted)
    assert all(table.schema == page_schema(wanted) for table, _ in pages)
    assert all(table["Id"].to_pylist() == sorted(table["Id"].to_pylist()) for table, _ in pages)
    assert [progress.complete for _, progress in pages] == [False] * (len(pages) - 1) + [True]
    last = pages[-1][1]
    assert last.rows_done == last.rows_expected == org.count(entity, include_deleted=True)
    assert (last.position, last.channel, last.started_at_ms) == (5, CHANNEL, 77)


def test_an_entity_without_records_is_one_empty_complete_page(org, new_session):
    with new_session() as session:
        wanted = columns_of(org, session, "Case")
        ((table, progress),) = read_pages(session, begin(session, "Case", wanted), wanted)
    assert (table.num_rows, table.schema) == (0, page_schema(wanted))
    assert (progress.complete, progress.pages_done, progress.rows_done) == (True, 1, 0)


def test_a_reader_killed_after_any_page_goes_on_from_the_stored_progress(org, new_session):
    """Each page is read by another session, from the progress as it was stored; the page that was lost comes again."""
    with new_session() as session:
        wanted = columns_of(org, session, "Account")
        stored = json.dumps(begin(session, "Account", wanted).to_json())
    tables: list[pa.Table] = []
    for _ in range(20):
        progress = SnapshotProgress.from_json(json.loads(stored))
        if progress.complete:
            break
        with new_session() as session:
            lost, _ = next(read_pages(session, progress, wanted, max_records=40))
        with new_session() as session:
            table, following = next(read_pages(session, progress, wanted, max_records=40))
        assert table.equals(lost)
        tables.append(table)
        stored = json.dumps(following.to_json())
    assert [table.num_rows for table in tables] == [40, 40, 40, 10]
    assert by_id(tables) == truth(org, "Account", wanted)


def test_a_complete_snapshot_reads_nothing_more(org, new_session):
    with new_session() as session:
        wanted = columns_of(org, session, "Case")
        ((_, progress),) = read_pages(session, begin(session, "Case", wanted), wanted)
        before = session.calls
        assert list(read_pages(session, progress, wanted)) == []
        assert session.calls == before


def test_rows_of_a_snapshot_are_those_of_the_job_whatever_changes_meanwhile(org, new_session):
    with new_session() as session:
        wanted = columns_of(org, session, "Task")
        reading = read_pages(session, begin(session, "Task", wanted), wanted, max_records=15)
        expected = truth(org, "Task", wanted)
        tables = [next(reading)[0]]
        with org.transaction() as unit_of_work:
            for record_id in expected:
                unit_of_work.update("Task", record_id, {"Subject": "changed meanwhile"})
        tables += [table for table, _ in reading]
    assert by_id(tables) == expected


def test_all_tokens_expiring_between_two_pages_do_not_stop_the_snapshot(org, server, new_session):
    with new_session() as session:
        wanted = columns_of(org, session, "Contact")
        reading = read_pages(session, begin(session, "Contact", wanted), wanted, max_records=7)
        tables = []
        for table, _ in reading:
            tables.append(table)
            server.sessions.expire_all()
    assert len(tables) > 3
    assert by_id(tables) == truth(org, "Contact", wanted)


def test_a_job_that_was_deleted_asks_for_a_new_snapshot(org, new_session):
    with new_session() as session:
        wanted = columns_of(org, session, "Lead")
        _, progress = next(read_pages(session, begin(session, "Lead", wanted), wanted, max_records=5))
        session.request("DELETE", f"jobs/query/{progress.job_id}")
        with pytest.raises(BulkJobGone, match="starts a new job at a new position"):
            next(read_pages(session, progress, wanted))


@pytest.mark.parametrize("closed", ["hidden_objects", "unreadable_objects"])
def test_an_entity_without_permission_says_so_before_anything_is_stored(org, new_session, closed):
    with new_session() as session:
        wanted = columns_of(org, session, "Opportunity")
        getattr(org, closed).add("Opportunity")
        try:
            with pytest.raises(EntityNotReadable, match=r"Opportunity cannot be read.*SFCDC_ENTITIES"):
                begin(session, "Opportunity", wanted)
            with pytest.raises(EntityNotReadable, match="Opportunity cannot be read"):
                retrieve(session, "Opportunity", ["006000000000000AAA"], ["Id"])
            with pytest.raises(EntityNotReadable, match="Opportunity cannot be read"):
                count(session, "Opportunity")
        finally:
            getattr(org, closed).clear()


def test_the_other_reads_agree_with_the_org(org, new_session):
    with new_session() as session:
        assert session.organization_id == org.organization_id
        assert session.version == "64.0"
        listed = channel_members(session, CHANNEL)
        assert listed is not None
        assert (listed.entities, listed.filters) == (tuple(sorted(org.selected_entities)), {})
        assert limits(session)["DailyApiRequests"].maximum == org.settings.daily_api_requests
        assert count(session, "Account") == org.count("Account")
        assert count(session, "Account", include_deleted=True) == org.count("Account", include_deleted=True)
        live = {record["Id"]: record["Name"] for record in org.records("Account")}
        rows = query_rows(session, "SELECT Id, Name FROM Account")
        assert {row["Id"]: row["Name"] for row in rows} == live
        wanted = [*list(live)[:3], "001000000000000AAA"]
        found = retrieve(session, "Account", wanted, ["Name"]).rows
        assert {key: row and row["Name"] for key, row in found.items()} == {key: live.get(key) for key in wanted}


def test_simple_salesforce_over_the_session_reads_the_same(org, new_session):
    with new_session() as session:
        client = simple_salesforce_client(session)
        assert client.query("SELECT COUNT() FROM Account")["totalSize"] == org.count("Account")
        assert client.Account.describe()["name"] == "Account"
