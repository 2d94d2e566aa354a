"""A lost checkpoint is a planned event: said loudly, and bridged by reading the org."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from typer.testing import CliRunner

from sfcdc_assets.cli.main import app
from sfcdc_assets.definitions import ASSETS
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.landing.poll_timeouts import TICK
from sfcdc_assets.landing.run_lander import Poller
from sfcdc_assets.org_connection.org_connection import connect
from sfcdc_assets.org_connection.same_organization import WrongOrganization
from sfcdc_assets.settings.settings import load_settings
from sfcdc_assets_tests.cli.command import sfcdc
from sfcdc_assets_tests.pipeline.emulated_pipeline import CHANNEL, EmulatedPipeline, ids
from sfcdc_assets_tests.pipeline.story import assert_equal_but_for, ledger, story, unhealed, waits

pytestmark = pytest.mark.slow

SEED = 61


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedPipeline]:
    print(f"seed {SEED}")
    with story(tmp_path_factory.mktemp("lost_checkpoint"), ["Account"], seed=SEED) as pipeline:
        pipeline.sync()
        yield pipeline


def lose(org: EmulatedPipeline, happen: Callable[[], object]) -> tuple[str, str]:
    """Changes that are applied, changes whose events nobody will ever deliver, what makes them so, and changes after
    it; returns the records that were updated unheard and hard-deleted unheard."""
    updated, deleted, purged, other = ids(org.org, "Account")[:4]
    for site in ("applied first", "applied before"):  # the second one's id shows that the first one's is complete
        with org.org.transaction() as one:
            one.update("Account", other, {"Site": site})
    org.sync()
    with org.org.transaction() as one:
        one.update("Account", updated, {"Name": "unheard of"})
        one.create("Account", {"Name": "created unheard"})
    # A transaction of its own: beside an update it may be a merge, whose loser is read back.
    with org.org.transaction() as one:
        one.delete("Account", deleted)
        one.hard_delete("Account", purged)
    happen()
    with org.org.transaction() as one:
        one.update("Account", other, {"Site": "after it", "Name": "after it"})
    return updated, purged


def lost_checkpoint(org: EmulatedPipeline) -> dict[str, str]:
    """What `status --json` says of the channel's last lost checkpoint."""
    result = CliRunner().invoke(app, ["status", "--json"])
    (channel,) = json.loads(result.stdout)["channels"]
    return channel["lost_checkpoint"]


def sync_and_check(org: EmulatedPipeline, updated: str) -> None:
    """The channel's tables are read again, and equal the org."""
    (first, *_) = org.sync()
    assert first.jobs == ("snapshot", "sync")
    assert org.rows("Account")[updated]["Name"] == "unheard of"
    in_org = {str(record["Id"]) for record in org.org.records("Account", include_deleted=True)}
    assert_equal_but_for(org, "Account", sorted(org.rows("Account").keys() - in_org))
    assert unhealed(org) == []
    assert waits(org.rows("Account")) == set()


def test_an_expired_replay_id_is_noted_reported_and_bridged_by_reading_the_tables_again(org: EmulatedPipeline) -> None:
    updated, purged = lose(org, org.server.bus.expire)
    landed = max(event["position"] for event in org.scan("raw_events"))
    description = org.sensor_tick()
    (observed,) = [
        event for event in description.asset_events or () if event.asset_key == ASSETS.keys.of_channel(CHANNEL)
    ]
    assert "replay" in str(observed.metadata["lost_checkpoint"].value)
    assert {request.job_name for request in description.run_requests or ()} == {
        "salesforce_snapshot",
        "salesforce_sync",
    }
    (entry,) = unhealed(org)
    assert (entry["record_id"], entry["reason"], entry["opened_position"]) == ("*", "lost_checkpoint", landed + 1)
    assert (lost_checkpoint(org)["bridged"], lost_checkpoint(org)["waiting"]) == (False, ["Account"])
    assert "is not bridged yet: Account will be read again" in sfcdc("status").stdout
    synced = sfcdc("sync")
    assert f"the checkpoint was lost at position {landed + 1}" in synced.stderr
    assert "every entity was read again since" in synced.stderr
    assert lost_checkpoint(org)["bridged"] is True
    assert "is bridged: every entity was read again since" in sfcdc("status").stdout
    assert "checkpoint" not in sfcdc("sync").stderr, "it is said once"
    assert entry["detail"] in {each["detail"] for each in ledger(org) if each["status"] == "healed"}
    lost = lost_checkpoint(org)
    assert lost["position"] == landed + 1
    assert lost["reason"] == entry["detail"]
    assert datetime.fromisoformat(str(lost["bridged_from"])) <= datetime.fromisoformat(str(lost["bridged_to"]))
    assert org.rows("Account")[purged]["_deleted_reason"] == "hard_deleted"
    with org.org.transaction() as one:
        one.update("Account", updated, {"Name": "unheard of", "Site": "heard"})
    org.sync()
    assert org.rows("Account")[updated]["Site"] == "heard"
    in_org = {str(record["Id"]) for record in org.org.records("Account", include_deleted=True)}
    assert_equal_but_for(org, "Account", sorted(org.rows("Account").keys() - in_org))


def test_rows_are_suspect_from_the_loss_until_they_are_read_again(org: EmulatedPipeline) -> None:
    """The snapshot cannot be taken, the rows say so."""
    lose(org, org.server.bus.expire)
    org.org.unreadable_objects.add("Account")
    try:
        org.instance.add_dynamic_partitions("salesforce_entity", ["Account"])
        org.sensor_tick()
        run = org.launch("sync", "Account")
        assert run.success, org.failure(run)
        rows = org.rows("Account")
        assert waits(rows) == {record_id for record_id, row in rows.items() if not row["_is_deleted"]}
    finally:
        org.org.unreadable_objects.clear()
    org.sync()
    assert waits(org.rows("Account")) == set()


def test_an_org_that_moved_and_whose_replay_ids_went_down_is_read_from_its_earliest_event(
    org: EmulatedPipeline,
) -> None:
    before = org.server.bus.latest_replay_id()
    delivered = org.server.meter.total
    updated, _ = lose(org, org.server.bus.move)
    assert org.server.bus.latest_replay_id() < before
    sync_and_check(org, updated)
    # The two that were applied before, and the one after the move, which only EARLIEST brings.
    assert org.server.meter.total - delivered == 3
    assert "instance" in lost_checkpoint(org)["reason"]


def test_an_org_on_another_instance_is_read_again_though_its_replay_ids_are_good(org: EmulatedPipeline) -> None:
    """Ids are opaque: one of the old instance may be another place on the new one, and nobody refuses it."""
    before = org.org.instance_name
    updated = ids(org.org, "Account")[0]
    org.sync()

    # The object stays on its channel: that it was off it for a while would be a reason of its own to read it again.
    with org.org.database.transaction():
        org.org.store.update(
            org.org.definitions["Account"], updated, {"Name": "unheard of", "SystemModstamp": org.org.clock()}
        )
    org.org.change_instance()
    sync_and_check(org, updated)
    assert lost_checkpoint(org)["reason"] == f"the org moved from the instance {before} to {org.org.instance_name}"
    (*_, last) = org.sync()
    assert last.jobs == (), "it is lost once"


def test_a_process_that_has_not_heard_of_a_move_which_another_has_noted_loses_no_checkpoint(
    org: EmulatedPipeline,
) -> None:
    """It asks every ten minutes; the name that it knows is the older one."""
    org.sync()
    warehouse = Warehouse(str(org.warehouse))
    with connect(load_settings()) as connection:
        with Poller(warehouse, connection, 1.0) as poller:
            poller.land(CHANNEL, TICK)
        org.org.change_instance()
        org.sync()
        noted = lost_checkpoint(org)
        assert noted["reason"].endswith(str(org.org.instance_name))
        with Poller(warehouse, connection, 1.0) as poller:
            assert poller.land(CHANNEL, TICK).lost_checkpoint is None
    assert lost_checkpoint(org) == noted


def test_a_start_from_the_earliest_event_is_not_made_when_it_would_use_up_the_deliveries(
    org: EmulatedPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    updated, _ = lose(org, org.server.bus.expire)
    org.server.meter.delivered(range(10**9, 10**9 + 100))  # to other subscribers
    delivered = org.server.meter.total
    settings = replace(org.org.settings, daily_event_deliveries=org.server.meter.in_last_24_hours() + 1)
    monkeypatch.setattr(org.org, "settings", settings)
    sync_and_check(org, updated)
    assert org.server.meter.total == delivered
    # The stream goes on from where LATEST was, not from where it is by now.
    with org.org.transaction() as one:
        one.update("Account", updated, {"Site": "between two polls"})
    monkeypatch.setattr(org.org, "settings", replace(settings, daily_event_deliveries=50_000))
    org.sync()
    assert org.server.meter.total == delivered + 1
    assert org.rows("Account")[updated]["Site"] == "between two polls"


def test_a_refreshed_sandbox_is_taken_over_when_a_person_accepts_its_organization_id(org: EmulatedPipeline) -> None:
    before = org.org.organization_id

    def refresh() -> None:
        org.server.bus.move(new_organization_id=True)
        org.server.sessions.expire_all()

    updated, purged = lose(org, refresh)
    versions = org.versions()
    with pytest.raises(WrongOrganization):
        org.sync()
    assert org.versions() == versions
    command = ["rebuild", "--from-org", "--accept-organization", org.org.organization_id[:15]]
    accepted = CliRunner().invoke(app, command)
    assert accepted.exit_code == 0, accepted.output
    assert org.rows("Account")[updated]["Name"] == "unheard of"
    assert org.rows("Account")[purged]["_is_deleted"]
    in_org = {str(record["Id"]) for record in org.org.records("Account", include_deleted=True)}
    assert_equal_but_for(org, "Account", sorted(org.rows("Account").keys() - in_org))
    assert unhealed(org) == []
    assert lost_checkpoint(org)["reason"] == (
        f"the organization changed from {before} to {org.org.organization_id}, which was accepted"
    )
    assert [entry["reason"] for entry in ledger(org)] == ["lost_checkpoint"] * len(ledger(org))
    assert {event["channel"] for event in org.scan("raw_events")} == {CHANNEL}
    assert [turn.jobs for turn in org.sync()] == [()]
