"""A warehouse behind the S3 API that several processes work on: one is first, one is killed, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyarrow import fs

from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.emulator.serving.server import EmulatorServer
from sfcdc_assets.lake.errors import CommitsNotAtomic
from sfcdc_assets.lake.maintenance.maintain import maintain
from sfcdc_assets.lake.maintenance.table_upkeep import Retention
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.same_organization import claim_warehouse
from sfcdc_assets.runtime import clock
from sfcdc_assets_tests.environment import without_settings
from sfcdc_assets_tests.eventually import BOUND_SECONDS
from sfcdc_assets_tests.pipeline.apply.applying_process import ENTITY, ApplyingProcess, land_and_apply
from sfcdc_assets_tests.pipeline.commits import another_memory
from sfcdc_assets_tests.pipeline.oracle import assert_same_rows, expected_rows
from sfcdc_assets_tests.pipeline.simulation.read_tables import rows_of, versions_of
from sfcdc_assets_tests.pipeline.stores.s3_proxy import s3_proxy
from sfcdc_assets_tests.pipeline.stores.s3_server import BUCKET, S3Server, s3_server
from sfcdc_assets_tests.pipeline.version_checks import assert_versions_follow
from sfcdc_assets_tests.store_login import forget_logins

pytestmark = pytest.mark.slow

SECRET = "s3cret+that/is-shown=nowhere"
STATE = f"current_state/{ENTITY}"


class Copied:
    """An org, and its copy in a bucket that processes work on."""

    def __init__(self, org: EmulatedOrg, server: S3Server, folder: Path) -> None:
        self.org, self.server, self.folder = org, server, folder
        self.warehouse = Warehouse(f"s3://{BUCKET}/warehouse")
        self.environment: dict[str, str] = {}
        self.logs: list[Path] = []

    def process(self, *options: str) -> ApplyingProcess:
        self.logs.append(self.folder / f"process{len(self.logs)}.log")
        return ApplyingProcess(self.logs[-1], self.environment, *options)

    def land_and_apply(self, *, snapshot: bool = False) -> None:
        """What a process does, in this one."""
        with another_memory(), pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            assert land_and_apply(snapshot=snapshot) == 0

    def change(self, text: str) -> None:
        with self.org.transaction() as work:
            for record in list(self.org.records(ENTITY))[:3]:
                work.update(ENTITY, str(record["Id"]), {"Name": text, "Description": f"{text} " * 200})

    def objects(self) -> dict[str, int]:
        """Path below the warehouse -> size, as the bucket lists it."""
        found = self.warehouse.filesystem("").get_file_info(fs.FileSelector("", recursive=True))
        return {info.path: info.size for info in found if info.type is fs.FileType.File}

    def orphans(self) -> set[str]:
        """Data files of `current_state` that no version of it names."""
        with another_memory():
            table = DeltaTable(self.warehouse.uri(STATE))
            named = {
                uri.rpartition("/")[2]
                for version in range(table.version() + 1)
                for uri in DeltaTable(self.warehouse.uri(STATE), version=version).file_uris()
            }
        listed = [path for path in self.objects() if path.startswith(f"{STATE}/") and path.endswith(".parquet")]
        return {path for path in listed if path.rpartition("/")[2] not in named}

    def assert_equal(self) -> None:
        with another_memory():
            rows = {row["Id"]: row for row in rows_of(self.warehouse, STATE)}
            assert_same_rows(ENTITY, rows, expected_rows(self.org, ENTITY))
            assert_versions_follow(versions_of(self.warehouse, ENTITY))
            events = rows_of(self.warehouse, "raw_events")
        assert sorted(event["position"] for event in events) == list(range(1, len(events) + 1))
        assert len({event["event_id"] for event in events}) == len(events)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copied]:
    """Day zero, by a process."""
    folder = tmp_path_factory.mktemp("s3")
    with ExitStack() as stack:
        server = stack.enter_context(s3_server())
        org = EmulatedOrg(folder / "org", seed=5)
        stack.callback(org.close)
        org.selected_entities = [ENTITY]
        org.populate({"User": 3, ENTITY: 6})
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        without_settings(patch)
        forget_logins(patch)
        served = stack.enter_context(EmulatorServer(org, directory=folder / "org"))
        made = Copied(org, server, folder)
        settings = {"SFCDC_WAREHOUSE": made.warehouse.root, "SFCDC_SETTLE_SECONDS": "0.5"}
        settings |= {"SFCDC_VISIBILITY_SECONDS": "0", "AWS_SECRET_ACCESS_KEY": SECRET}
        for name, value in {**served.client_environment(), **server.environment, **settings}.items():
            patch.setenv(name, value)
        made.environment = dict(os.environ)
        made.change("first")  # a stream on which nothing ever came answers with its keepalive, minutes later
        made.land_and_apply(snapshot=True)
        made.assert_equal()
        yield made


@pytest.mark.parametrize("table", ["raw_events", STATE])
def test_of_two_processes_one_commits_and_the_other_goes_on_from_there(copied: Copied, table: str) -> None:
    copied.change(f"both commit to {table}")
    processes = [copied.process("--stop-before", table) for _ in range(2)]
    for each in processes:
        each.wait_until_stopped()
    for each in processes:
        each.go_on()
    assert sum(each.conflicts() for each in processes) >= 1
    copied.assert_equal()


def test_a_process_killed_between_data_file_and_commit_leaves_an_orphan_that_maintenance_deletes(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied.change("killed")
    killed = copied.process("--stop-before", STATE)
    killed.wait_until_stopped()
    orphans = copied.orphans()
    killed.process.send_signal(signal.SIGKILL)
    assert killed.process.wait(BOUND_SECONDS) == -signal.SIGKILL
    assert orphans
    copied.land_and_apply()
    copied.assert_equal()
    assert orphans <= set(copied.objects())
    with s3_proxy(copied.server, "--days", "40") as later, monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", later.url)
        done = maintain(copied.warehouse, Retention(7), clock.now_ms())
        assert not [each.problem for each in done if each.problem]
    assert not orphans & set(copied.objects())
    copied.assert_equal()


def test_nothing_that_was_logged_or_written_has_the_credentials(copied: Copied) -> None:
    """After the tests before: each process logged what deltalake and all other libraries have to say."""
    for log in copied.logs:
        said = log.read_text()
        assert "DEBUG" in said
        assert SECRET not in said
    files = copied.warehouse.filesystem("")
    for path in copied.objects():
        with files.open_input_file(path) as source:
            assert SECRET.encode() not in source.readall()


def test_a_store_before_which_a_proxy_drops_the_condition_is_refused_before_a_table_is_written(
    copied: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Warehouse(f"s3://{BUCKET}/other")
    with s3_proxy(copied.server, "--unconditional") as proxy, monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        with pytest.raises(CommitsNotAtomic):
            claim_warehouse(other, copied.org.organization_id, 1)
    found = other.filesystem("").get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
    assert [info.path for info in found] == []
