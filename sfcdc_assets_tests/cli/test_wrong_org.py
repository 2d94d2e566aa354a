"""The settings lead to another org than the warehouse's: whatever is started refuses before it writes anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sfcdc_assets.cli.dev import followed
from sfcdc_assets.emulator.faults.faults import Fault
from sfcdc_assets.emulator.org.org import EmulatedOrg
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.orchestration.sensors.channel import OPEN_CHANNELS
from sfcdc_assets.org_connection.same_organization import WrongOrganization, accept_organization, owner_of
from sfcdc_assets.runtime import clock
from sfcdc_assets.salesforce.errors import OrganizationReplaced
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import refusal, sfcdc
from sfcdc_assets_tests.documentation import ROOT
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline

pytestmark = pytest.mark.slow


class TwoOrgs:
    """`ours` has the warehouse; the settings lead to `theirs`, over it."""

    def __init__(self, ours: EmulatedPipeline, theirs: EmulatedPipeline) -> None:
        self.ours, self.theirs = ours, theirs
        self.warehouse = ours.warehouse

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.warehouse)): path.read_bytes()
            for path in sorted(self.warehouse.rglob("*"))
            if path.is_file()
        }

    def assert_refused(self, said: str) -> None:
        owner, other = self.ours.org.organization_id, self.theirs.org.organization_id
        assert str(WrongOrganization(str(self.warehouse), owner, other)) in said


@pytest.fixture
def two_orgs(make_pipeline: Callable[..., EmulatedPipeline], monkeypatch: pytest.MonkeyPatch) -> TwoOrgs:
    """Nothing has landed yet: our org's sensor has looked once, and there was no event."""
    ours = make_pipeline("Account", records=3, seed=23)
    ours.sensor_tick()
    theirs = make_pipeline("Account", records=3, seed=24)
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(ours.warehouse))
    with theirs.org.transaction() as one:
        one.create("Account", {"Name": "of the other org"})
    return TwoOrgs(ours, theirs)


@pytest.mark.parametrize(
    "command",
    [
        ("sync",),
        ("sync", "--until-caught-up"),
        ("verify",),
        ("rebuild", "--entity", "Account"),
        ("rebuild", "--from-org", "--entity", "Account"),
    ],
    ids=" ".join,
)
def test_a_command_refuses_with_the_way_to_go_on(two_orgs: TwoOrgs, command: tuple[str, ...]) -> None:
    (two_orgs.warehouse / "snapshot" / "Account").mkdir(parents=True)  # so that there is something to rebuild
    before = two_orgs.files()
    two_orgs.assert_refused(refusal(sfcdc(*command)))
    assert two_orgs.files() == before
    assert (two_orgs.warehouse / "snapshot" / "Account").exists()
    assert two_orgs.theirs.server.meter.total == 0, "no delivery was paid for"


def test_a_tick_of_the_sensor_fails(two_orgs: TwoOrgs) -> None:
    before = two_orgs.files()
    with pytest.raises(WrongOrganization) as refused:
        two_orgs.theirs.sensor_tick()
    two_orgs.assert_refused(str(refused.value))
    assert two_orgs.files() == before


@pytest.mark.parametrize("job", ["snapshot", "sync", "audit"])
def test_a_run_launched_by_hand_fails(two_orgs: TwoOrgs, job: str) -> None:
    before = two_orgs.files()
    two_orgs.theirs.instance.add_dynamic_partitions("salesforce_entity", ["Account"])
    run = two_orgs.theirs.launch(job, *([] if job == "audit" else ["Account"]))
    assert not run.success
    two_orgs.assert_refused(two_orgs.theirs.failure(run))
    assert two_orgs.files() == before


def test_dev_refuses_before_dagster_is_started(two_orgs: TwoOrgs, monkeypatch: pytest.MonkeyPatch) -> None:
    before, folder = two_orgs.files(), Path.cwd() / "dev"
    monkeypatch.chdir(ROOT)
    two_orgs.assert_refused(refusal(sfcdc("dev", "--dir", str(folder), "--port", "0")))
    assert two_orgs.files() == before
    assert not list(folder.glob("dagster_home*"))


def test_dev_refuses_to_put_its_emulated_org_into_your_warehouse(
    two_orgs: TwoOrgs, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, folder = two_orgs.files(), Path.cwd() / "dev"
    for name in ("INSTANCE_URL", "LOGIN_URL", "CLIENT_ID", "CLIENT_SECRET", "PUBSUB_ENDPOINT", "CA_FILE"):
        monkeypatch.delenv(f"SFCDC_{name}")
    monkeypatch.chdir(ROOT)
    ended = sfcdc("dev", "--dir", str(folder), "--port", "0", "--records", "1")
    assert ended.exit_code == 1
    assert f"is a copy of the organization {two_orgs.ours.org.organization_id}" in ended.stderr
    assert two_orgs.files() == before


def test_dev_says_which_org_goes_into_which_warehouse() -> None:
    said = followed("00D1", {"SFCDC_INSTANCE_URL": "https://us.example", "SFCDC_WAREHOUSE": "/data/w"}, Path("/home"))
    assert said == "Following the organization 00D1 at https://us.example into /data/w. Dagster's home is /home."


def test_accepting_needs_the_id_that_the_settings_lead_to(two_orgs: TwoOrgs) -> None:
    before = two_orgs.files()
    accept = ("rebuild", "--from-org", "--accept-organization")
    said = refusal(sfcdc(*accept, two_orgs.ours.org.organization_id))
    assert said.startswith("sfcdc: --accept-organization: names ")
    assert two_orgs.theirs.org.organization_id in said
    assert "--accept-organization" in refusal(sfcdc(*accept, "mine"))
    assert "--from-org" in refusal(sfcdc("rebuild", "--accept-organization", two_orgs.theirs.org.organization_id))
    assert two_orgs.files() == before


def test_a_refreshed_sandbox_is_refused_too(two_orgs: TwoOrgs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFCDC_WAREHOUSE", str(two_orgs.theirs.warehouse))
    theirs = two_orgs.theirs
    theirs.sensor_tick()
    before = theirs.org.organization_id
    theirs.server.bus.move(new_organization_id=True)
    theirs.server.sessions.expire_all()
    said = refusal(sfcdc("sync"))
    assert f"is a copy of the organization {before}" in said
    assert f"--accept-organization {theirs.org.organization_id}" in said


def test_a_sensor_whose_session_is_open_stops_when_its_warehouse_is_given_to_another_org(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    ours = make_pipeline("Account", records=3)
    ours.sensor_tick()
    warehouse = Warehouse(str(ours.warehouse))
    accept_organization(warehouse, "00D000000000002EAA", [CHANNEL], clock.now_ms())
    with ours.org.transaction() as one:
        one.create("Account", {"Name": "of the org of before"})
    for _ in range(2):
        with pytest.raises(WrongOrganization):
            ours.sensor_tick()
        assert OPEN_CHANNELS.names == ()
    assert RawEvents.open(warehouse).table.count() == 0


def test_a_sensor_whose_sandbox_is_refreshed_meanwhile_says_how_to_go_on(
    make_pipeline: Callable[..., EmulatedPipeline],
) -> None:
    ours = make_pipeline("Account", records=3)
    ours.sensor_tick()
    ours.server.bus.move(new_organization_id=True)
    ours.server.sessions.expire_all()
    with ours.org.transaction() as one:
        one.create("Account", {"Name": "of the new org"})
    ours.server.service.faults.arm(Fault.STREAM_AUTH_ERROR, 1)
    said = []
    for _ in range(3):
        with pytest.raises((WrongOrganization, OrganizationReplaced)) as refused:
            ours.sensor_tick()
        said.append(str(refused.value))
    assert f"--accept-organization {ours.org.organization_id}" in said[-1]
    assert RawEvents.open(Warehouse(str(ours.warehouse))).table.count() == 0


def test_status_names_the_organization(two_orgs: TwoOrgs) -> None:
    description = " ".join(sfcdc("status").stdout.split())
    assert f"a copy of {two_orgs.ours.org.organization_id}." in description
    assert owner_of(Warehouse(load_settings().warehouse)) == two_orgs.ours.org.organization_id


def test_two_emulated_orgs_have_different_ids() -> None:
    """What these tests stand on."""
    ids = set()
    for seed in (23, 24):
        org = EmulatedOrg(seed=seed)
        ids.add(org.organization_id)
        org.close()
    assert len(ids) == 2
