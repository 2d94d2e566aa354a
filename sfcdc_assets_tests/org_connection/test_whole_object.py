"""Objects read whole where there is no Bulk for them: by queries, page by page, and through their parents."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from sfcdc_assets.change_events.columns import Column, columns
from sfcdc_assets.emulator.definitions.whole_org import whole_org
from sfcdc_assets.emulator.faults.rest_faults import RestFault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.org_connection import whole_object
from sfcdc_assets.org_connection.object_trial import check_ids
from sfcdc_assets.org_connection.whole_object import read_pages, start
from sfcdc_assets.org_reads.records_by_id import read_back
from sfcdc_assets.polls import known_objects
from sfcdc_assets.polls.object_schema import schema_of
from sfcdc_assets.polls.readability import NotPollable
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.errors import BulkJobGone
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.channel_kinds import POLLED
from sfcdc_assets.settings.settings import Settings
from sfcdc_assets.snapshot.progress import SnapshotProgress

MANY = 2_150
NewSession = Callable[[], OrgSession]


@pytest.fixture(scope="module")
def org() -> Iterator[EmulatedOrg]:
    made = EmulatedOrg(seed=3, objects=whole_org())
    made.populate(
        {"Account": 3, "ContentDocument": 4, "Attachment": MANY, "TabDefinition": 3, "CaseStatus": 2, "ApexPageInfo": 3}
    )
    documents, accounts = ([str(row["Id"]) for row in made.records(name)] for name in ("ContentDocument", "Account"))
    with made.transaction() as work:
        for document in documents:
            for account in accounts:
                work.create("ContentDocumentLink", {"ContentDocumentId": document, "LinkedEntityId": account})
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(org: EmulatedOrg, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorServer]:
    with EmulatorServer(org, directory=tmp_path_factory.mktemp("org")) as running:
        yield running


@pytest.fixture
def new_session(server: EmulatorServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NewSession:
    for name in os.environ:
        if name.startswith("SFCDC_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    fields = {name.removeprefix("SFCDC_").lower(): value for name, value in server.client_environment().items()}
    return lambda: OrgSession(Settings(_env_file=None, **fields), sleep=lambda _seconds: None)


def columns_of(session: OrgSession, entity: str) -> tuple[Column, ...]:
    described = describe(session, entity)
    return columns(json.loads(schema_of(described)[1]), described)


def begun(session: OrgSession, entity: str, wanted: tuple[Column, ...]) -> SnapshotProgress:
    return start(session, entity, wanted, channel=POLLED, position=3, snapshot_number=1)


def ids_of(org: EmulatedOrg, entity: str) -> list[str]:
    return sorted(str(record["Id"]) for record in org.records(entity, include_deleted=True))


@pytest.mark.parametrize("entity", ["Attachment", "CaseStatus", "ContentDocumentLink", "TabDefinition"])
def test_each_of_them_is_read_whole(org: EmulatedOrg, new_session: NewSession, entity: str) -> None:
    with new_session() as session:
        wanted = columns_of(session, entity)
        pages = list(read_pages(session, begun(session, entity, wanted), wanted))
    assert sorted(row for page, _ in pages for row in page["Id"].to_pylist()) == ids_of(org, entity)
    assert all(page["_system_modstamp"].null_count == 0 for page, _ in pages), "one without a stamp has one"
    assert [after.complete for _, after in pages] == [False] * (len(pages) - 1) + [True]


def test_a_reading_by_queries_goes_on_at_the_page_where_it_stopped(org: EmulatedOrg, new_session: NewSession) -> None:
    with new_session() as session:
        wanted = columns_of(session, "Attachment")
        first, after = next(read_pages(session, begun(session, "Attachment", wanted), wanted))
        kept = SnapshotProgress.from_json(json.loads(json.dumps(after.to_json())))
    with new_session() as session:
        others = [page for page, _ in read_pages(session, kept, wanted)]
    read = [each for page in (first, *others) for each in page["Id"].to_pylist()]
    assert sorted(read) == ids_of(org, "Attachment")
    assert "Body" not in first.column_names


def test_a_locator_that_has_expired_is_as_a_job_that_is_gone(server: EmulatorServer, new_session: NewSession) -> None:
    with new_session() as session:
        wanted = columns_of(session, "Attachment")
        _, after = next(read_pages(session, begun(session, "Attachment", wanted), wanted))
        server.rest_faults.arm(RestFault.LOCATOR_GONE)
        with pytest.raises(BulkJobGone):
            next(read_pages(session, after, wanted))


@pytest.mark.parametrize("entity", ["OutgoingEmail", "FlexQueueItem", "ListViewChartInstance", "SiteDetail"])
def test_one_that_answers_no_query_is_refused_before_anything_is_read(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch, entity: str
) -> None:
    monkeypatch.setattr("sfcdc_assets.polls.known_objects.KNOWN_OBJECTS", ())
    with new_session() as session, pytest.raises(NotPollable, match=entity):
        begun(session, entity, columns_of(session, entity))


@pytest.mark.parametrize("no_bulk", [True, False])
def test_one_whose_rows_have_no_ids_of_their_own_is_refused_before_anything_is_read(
    org: EmulatedOrg, new_session: NewSession, monkeypatch: pytest.MonkeyPatch, *, no_bulk: bool
) -> None:
    """All of them would be one row of the table."""
    row = known_objects.KnownObject(("*",), no_bulk=no_bulk)
    monkeypatch.setattr("sfcdc_assets.polls.known_objects.KNOWN_OBJECTS", (row,))
    with new_session() as session, pytest.raises(NotPollable, match="have the empty Id"):
        begun(session, "ApexPageInfo", columns_of(session, "ApexPageInfo"))


@pytest.mark.parametrize("no_bulk", [True, False])
def test_a_page_of_rows_without_ids_of_their_own_is_refused(
    new_session: NewSession, monkeypatch: pytest.MonkeyPatch, *, no_bulk: bool
) -> None:
    """By Bulk or by queries: the object had no rows yet when it was tried."""
    row = known_objects.KnownObject(("*",), no_bulk=no_bulk)
    monkeypatch.setattr("sfcdc_assets.polls.known_objects.KNOWN_OBJECTS", (row,))
    monkeypatch.setattr(whole_object, "tried", lambda *_: None)
    with new_session() as session:
        wanted = columns_of(session, "ApexPageInfo")
        with pytest.raises(NotPollable, match="empty Id"):
            list(read_pages(session, begun(session, "ApexPageInfo", wanted), wanted))


def test_records_of_one_id_are_refused() -> None:
    with pytest.raises(NotPollable, match="one Id, 01"):
        check_ids("Odd", pl.Series(["02", "01", "01"]))
    for empty in (None, "", "000000000000000", "000000000000000AAA"):
        with pytest.raises(NotPollable, match="empty Id"):
            check_ids("Odd", pl.Series(["01", empty], dtype=pl.String))
    check_ids("Odd", pl.Series(["01", "000000000000000AAB"]))
    check_ids("Odd", pl.Series([], dtype=pl.String))


@pytest.mark.parametrize("says_so", [True, False])
def test_records_that_no_retrieve_gives_are_read_back_by_queries(
    org: EmulatedOrg, new_session: NewSession, *, says_so: bool
) -> None:
    """Also where the describe that is stored is older than what it says of that."""
    present, gone = ids_of(org, "TabDefinition"), "01r000000000999AAA"
    with new_session() as session:
        described = replace(describe(session, "TabDefinition"), retrieveable=not says_so)
        calls, wanted = session.calls, columns_of(session, "TabDefinition")
        asked = [*present, gone]
        read = read_back(session, "TabDefinition", asked, wanted, described, position=3, read_at=clock.now())
        assert session.calls - calls <= 3
    assert (read.refused, read.left) == ({}, ())
    rows = {row["Id"]: row for row in read.rows.to_pylist()}
    assert {each for each, row in rows.items() if row["_system_modstamp"] is not None} == {*present}
    assert all(rows[each]["Name"] is not None for each in present)
