"""A warehouse is the copy of one org, whatever the settings say, and of one instance of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sfcdc_assets.change_events.columns import ID_COLUMN
from sfcdc_assets.lake.tables import organization as organization_log
from sfcdc_assets.lake.tables.gap_reconciliation import Ledger
from sfcdc_assets.lake.tables.organization import OrganizationLog
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.tables.snapshots import Snapshots
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection import same_organization
from sfcdc_assets.org_connection.same_organization import (
    WrongOrganization,
    accept_organization,
    check_accepted,
    claim_warehouse,
    follow_instance,
    owner_of,
)
from sfcdc_assets.runtime.errors import SettingsError
from sfcdc_assets.salesforce.instance import InstanceName
from sfcdc_assets.snapshot.progress import SnapshotProgress
from sfcdc_assets.streams.checkpoint import EARLIEST, StreamCheckpoint
from sfcdc_assets.streams.resume import ResumePoint
from sfcdc_assets_tests.lake.test_raw_events import events

OURS, THEIRS = "00D000000000001EAA", "00D000000000002EAA"
ALL, SALES = "/data/ChangeEvents", "/data/Sales__chn"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def landed(warehouse: Warehouse, channel: str = ALL) -> None:
    """Three events of Account, which rests on the channel."""
    checkpoint = StreamCheckpoint(channel, 3, 2, ResumePoint(b"\x03"), "t", EARLIEST, 1)
    RawEvents.open(warehouse).commit(events(1, 2, 3, channel=channel), checkpoint)
    entity = "Account" if channel == ALL else "Case"
    progress = SnapshotProgress(1, entity, channel, 1, "750", None, 0, 0, False, 0, ("Id",))
    Snapshots.open_or_create(warehouse, entity, [ID_COLUMN]).begin(progress)


def cleaned_up(warehouse: Warehouse) -> None:
    """What an outside Delta client does: no commit older than the newest checkpoint is left in any log."""
    for log in warehouse.folder.rglob("_delta_log"):
        table = DeltaTable(log.parent)
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
        DeltaTable(log.parent).create_checkpoint()
        DeltaTable(log.parent).cleanup_metadata()
        for commit in sorted(log.glob("*.json"))[:-1]:
            commit.unlink(missing_ok=True)


def test_another_organization_is_refused_with_both_ways_to_go_on(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    claim_warehouse(warehouse, OURS, 2)
    with pytest.raises(WrongOrganization) as refused:
        claim_warehouse(warehouse, THEIRS, 3)
    for part in (OURS, THEIRS, "SFCDC_WAREHOUSE", f"sfcdc rebuild --from-org --accept-organization {THEIRS}"):
        assert part in str(refused.value)
    assert owner_of(warehouse) == OURS


def test_it_is_known_before_the_first_event_and_after_the_log_was_cleaned_up(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    landed(warehouse)
    cleaned_up(warehouse)
    with pytest.raises(WrongOrganization):
        claim_warehouse(warehouse, THEIRS, 2)


def test_of_two_orgs_that_come_at_once_one_is_refused(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(OrganizationLog):
        """The other org's process is faster, once."""

        def bind(self, *arguments: Any) -> None:
            monkeypatch.setattr(same_organization, "OrganizationLog", OrganizationLog)
            claim_warehouse(warehouse, THEIRS, 1)
            super().bind(*arguments)

    log = OrganizationLog(warehouse)
    log.note_instance(ALL, OURS, "EMU1", 0, 1)  # so that the table is there for both
    monkeypatch.setattr(same_organization, "OrganizationLog", Late)
    with pytest.raises(WrongOrganization):
        claim_warehouse(warehouse, OURS, 1)
    assert owner_of(warehouse) == THEIRS


@pytest.mark.parametrize("typed", [THEIRS, THEIRS[:15]])
def test_the_organization_that_is_accepted_may_be_typed_with_15_or_18_characters(typed: str) -> None:
    check_accepted(typed, THEIRS)


@pytest.mark.parametrize("typed", [OURS, "00D", "my sandbox"])
def test_only_the_organization_that_the_settings_lead_to_can_be_accepted(typed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_accepted(typed, THEIRS)
    assert THEIRS in str(refused.value)


def test_accepting_another_organization_has_the_entities_of_all_channels_read_again(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    assert OrganizationLog(warehouse).accepted_at(ALL) == 0
    landed(warehouse)
    landed(warehouse, SALES)
    # Sales__chn is not configured any more; its entity's rows are the old org's all the same.
    assert accept_organization(warehouse, THEIRS, [ALL], 5) == {ALL: 4, SALES: 4}
    for channel, entity in ((ALL, "Account"), (SALES, "Case")):
        checkpoint = RawEvents.open(warehouse).checkpoint(channel)
        assert (checkpoint.position, checkpoint.resume.replay_id) == (4, None)
        ledger = Ledger.open(warehouse, entity)
        assert ledger is not None
        (suspect,) = ledger.open_suspects()
        assert f"from {OURS} to {THEIRS}" in (suspect.detail or "")
        assert OrganizationLog(warehouse).accepted_at(channel) == 4
    claim_warehouse(warehouse, THEIRS, 6)
    with pytest.raises(WrongOrganization):
        claim_warehouse(warehouse, OURS, 7)
    assert accept_organization(warehouse, THEIRS, [ALL], 8) == {}, "once is enough"


def test_an_acceptance_that_is_interrupted_leaves_the_warehouse_to_its_org_and_is_made_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_warehouse(warehouse, OURS, 1)
    landed(warehouse)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OrganizationLog, "bind", killed)
        with pytest.raises(KeyboardInterrupt):
            accept_organization(warehouse, THEIRS, [ALL], 5)
    assert owner_of(warehouse) == OURS
    assert accept_organization(warehouse, THEIRS, [ALL], 6) == {ALL: 5}
    ledger = Ledger.open(warehouse, "Account")
    assert ledger is not None
    assert {suspect.record_id for suspect in ledger.open_suspects()} == {"*"}


# -- instances


class OnInstance(InstanceName):
    """An org that says its instance whenever it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> str:
        return self.name

    asked_now = __call__


def follow(warehouse: Warehouse, instance: str, channel: str = ALL, organization_id: str = OURS) -> str | None:
    return follow_instance(warehouse, channel, organization_id, OnInstance(instance), 9)


def test_an_org_on_another_instance_has_lost_its_checkpoint_on_each_channel_once(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    landed(warehouse)
    landed(warehouse, SALES)
    assert [follow(warehouse, "USA1", channel) for channel in (ALL, SALES)] == [None, None]
    assert RawEvents.open(warehouse).checkpoint(ALL).resume.replay_id == b"\x03", (
        "an instance that is new to us is no other"
    )
    cleaned_up(warehouse)
    reasons = [follow(warehouse, "USA2", channel) for channel in (ALL, SALES, ALL, SALES)]
    assert reasons == ["the org moved from the instance USA1 to USA2"] * 2 + [None, None]
    raw_events = RawEvents.open(warehouse)
    assert [raw_events.checkpoint(channel).resume.replay_id for channel in (ALL, SALES)] == [None, None]
    ledger = Ledger.open(warehouse, "Account")
    assert ledger is not None
    assert [(suspect.record_id, suspect.reason) for suspect in ledger.open_suspects()] == [("*", "lost_checkpoint")]
    assert [row["what"] for row in rows(warehouse)] == ["bound", *["instance"] * 4]


def test_a_channel_without_a_checkpoint_has_none_to_lose(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    assert follow(warehouse, "USA1") is None
    assert follow(warehouse, "USA2") is None
    assert OrganizationLog(warehouse).instance(ALL) == "USA2"


def test_the_instance_of_another_organization_is_not_compared(warehouse: Warehouse) -> None:
    claim_warehouse(warehouse, OURS, 1)
    landed(warehouse)
    assert follow(warehouse, "USA1") is None
    accept_organization(warehouse, THEIRS, [ALL], 5)
    checkpoint = StreamCheckpoint(ALL, 9, 9, ResumePoint(b"\x09"), None, EARLIEST, 6)
    RawEvents.open(warehouse).commit(events(9), checkpoint)
    assert follow(warehouse, "EU7", organization_id=THEIRS) is None
    assert "EU7 to EU8" in (follow(warehouse, "EU8", organization_id=THEIRS) or "")


def rows(warehouse: Warehouse) -> list[dict[str, Any]]:
    found = pa.table(DeltaTable(warehouse.uri(organization_log.NAME)).scan()).to_pylist()
    return sorted(found, key=lambda row: row["number"])


def test_an_instance_that_was_noted_before_the_warehouse_belonged_to_anybody_is_known_afterwards(
    warehouse: Warehouse,
) -> None:
    assert follow(warehouse, "USA1") is None
    claim_warehouse(warehouse, OURS, 2)
    landed(warehouse)
    assert "moved from the instance USA1 to USA2" in str(follow(warehouse, "USA2"))
