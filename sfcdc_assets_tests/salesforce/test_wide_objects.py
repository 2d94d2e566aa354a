"""Records of wide objects are read back with no address that is too long for a web server or a proxy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sfcdc_assets.change_events.column_types import ColumnType
from sfcdc_assets.change_events.columns import Column
from sfcdc_assets.emulator.definitions.object_file import object_definition
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.org_reads import records_by_id as reading
from sfcdc_assets.org_reads.records_by_id import read_back
from sfcdc_assets.salesforce import recycle_bin
from sfcdc_assets.salesforce.describe import describe
from sfcdc_assets.salesforce.recycle_bin import MOST_URL_BYTES, ChangedWhileRead, deleted_records
from sfcdc_assets.salesforce.session import OrgSession
from sfcdc_assets.settings.settings import Settings

ENTITY = "Wide__c"
PROXY_BYTES = 8_192
NAME = "A_Field_Of_An_Object_That_Is_Wide_{:04}__c"
AT = datetime(2024, 1, 2, tzinfo=UTC)


@dataclass
class Wide:
    """An org with one object, a session with it, and the length of each request's address."""

    org: EmulatedOrg
    session: OrgSession
    fields: list[str]
    addresses: list[int]

    def create(self, number: int) -> list[str]:
        """Ids of records that are then in the recycle bin."""
        with self.org.transaction() as work:
            ids = [work.create(ENTITY, dict.fromkeys(self.fields, f"v{n}")) for n in range(number)]
        with self.org.transaction() as work:
            for record_id in ids:
                work.delete(ENTITY, record_id)
        return ids

    def read(self, ids: list[str]) -> reading.ReadBack:
        columns = [Column(name, ColumnType.STRING, False, "string") for name in ("Id", *self.fields)]
        described = describe(self.session, ENTITY)
        self.addresses.clear()
        return read_back(self.session, ENTITY, ids, columns, described, 5, AT)


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Wide]]:
    for name in os.environ:
        if name.startswith("SFCDC_"):
            monkeypatch.delenv(name)
    with ExitStack() as opened:

        def make(number: int) -> Wide:
            names = [NAME.format(n) for n in range(number)]
            document = {
                "name": ENTITY,
                "label": "Wide",
                "key_prefix": "a0W",
                "fields": [{name: {"type": "string"}} for name in names],
            }
            org = EmulatedOrg(seed=3, objects=[object_definition(document, "this test")])
            opened.callback(org.close)
            org.settings = replace(org.settings, most_request_bytes=PROXY_BYTES)
            server = opened.enter_context(EmulatorServer(org, directory=tmp_path))
            description = {
                key.removeprefix("SFCDC_").lower(): value for key, value in server.client_environment().items()
            }
            session = opened.enter_context(OrgSession(Settings(_env_file=None, **description), sleep=lambda _: None))
            found = Wide(org, session, names, [])
            send = session.send

            def noted(method: str, url: str, **options: object):
                response = send(method, url, **options)
                found.addresses.append(len(response.request.url or ""))
                return response

            monkeypatch.setattr(session, "send", noted)
            return found

        yield make


@pytest.mark.parametrize(("fields", "ids", "requests"), [(5, 200, 1), (350, 200, 2 * 6 + 3), (800, 1, 8)])
def test_deleted_records_come_whole_by_addresses_that_any_proxy_takes(
    wide: Callable[[int], Wide], fields: int, ids: int, requests: int
) -> None:
    made = wide(fields)
    wanted = made.create(ids)
    read = made.read([*wanted, "a0W000000000zzzAAA"])
    assert (read.refused, read.left) == ({}, ())
    rows = {row["Id"]: row for row in read.rows.to_pylist()}
    assert rows.keys() == {*wanted, "a0W000000000zzzAAA"}
    for number, record_id in enumerate(wanted):
        assert {rows[record_id][name] for name in made.fields} == {f"v{number}"}
        assert rows[record_id]["_is_deleted"]
    assert rows["a0W000000000zzzAAA"]["_system_modstamp"] is None
    assert max(made.addresses) <= MOST_URL_BYTES
    assert len(made.addresses) <= 1 + requests  # one retrieve


def test_of_records_that_are_gone_only_the_id_is_asked_for(wide: Callable[[int], Wide]) -> None:
    made = wide(800)
    gone = [f"a0W0000000{number:05}AAA" for number in range(200)]
    assert made.read(gone).rows["_system_modstamp"].null_count == 200
    assert len(made.addresses) == 2


def test_a_record_that_changes_between_two_parts_is_read_the_next_time(
    wide: Callable[[int], Wide], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wide(350)
    changed, same = made.create(2)
    query_rows = recycle_bin.query_rows
    queries: list[str] = []

    def meanwhile(session: OrgSession, soql: str, **options: object):
        queries.append(soql)
        if len(queries) == 3:
            with made.org.transaction() as work:
                work.undelete(ENTITY, changed)
        return query_rows(session, soql, **options)

    monkeypatch.setattr(recycle_bin, "query_rows", meanwhile)
    monkeypatch.setattr(made.org, "clock", lambda now=made.org.clock: now() + 5_000 * len(queries))
    found = deleted_records(made.session, ENTITY, [changed, same], ["Id", "SystemModstamp", *made.fields])
    assert found.rows.keys() == {same}
    assert isinstance(found.refused[changed], ChangedWhileRead)
