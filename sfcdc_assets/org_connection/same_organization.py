"""A warehouse is the copy of one org.

The settings may lead to another one by mistake, and then every record of the copy would be missing there and end as
deleted. So wherever a session with an org meets a warehouse, the warehouse is claimed first, and nothing is written
when it is another org's.

Some orgs legitimately get another id: a refreshed sandbox does. A person accepts it, and the entities are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfcdc_assets.lake.delta.commit_probe import check_commits
from sfcdc_assets.lake.delta.commit_protocol import retry_on_conflict
from sfcdc_assets.lake.tables.event_table import event_tables, landed_table
from sfcdc_assets.lake.tables.lost_checkpoints import channels_of_entities, lose_checkpoint
from sfcdc_assets.lake.tables.organization import OrganizationLog, commits_are_atomic, organization_of
from sfcdc_assets.lake.tables.raw_events import RawEvents
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.record_id import eighteen_characters

if TYPE_CHECKING:  # it imports the client of REST, which `sfcdc status` does not need
    from sfcdc_assets.salesforce.instance import InstanceName


class WrongOrganization(SfcdcError):
    """The settings lead to another org than the one that the warehouse is a copy of."""

    def __init__(self, warehouse: str, owner: str, organization_id: str) -> None:
        self.warehouse, self.owner, self.organization_id = warehouse, owner, organization_id
        super().__init__(
            f"The warehouse {warehouse} is a copy of the organization {owner}, and the SFCDC_* settings lead to the "
            f"organization {organization_id}. Nothing was written. Set SFCDC_WAREHOUSE to a warehouse of its own; or, "
            f"if this org takes the other's place (a refreshed sandbox has a new id), run "
            f"`sfcdc rebuild --from-org --accept-organization {organization_id}`."
        )


@retry_on_conflict
def claim_warehouse(warehouse: Warehouse, organization_id: str, now_ms: int) -> None:
    """Bind a warehouse that belongs to nobody; raise `WrongOrganization` where it is another organization's, and
    `CommitsNotAtomic` where its store would lose commits. Nothing is in the warehouse's tables then."""
    if organization_of(warehouse) == organization_id and commits_are_atomic(warehouse):
        return
    check_owner(warehouse, organization_id)
    log = OrganizationLog(warehouse)
    if not log.commits_are_atomic:
        check_commits(warehouse)
        log.note_atomic_commits()
    if log.organization_id is None:
        log.bind(organization_id, now_ms, {})


def check_owner(warehouse: Warehouse, organization_id: str) -> str | None:
    """Return the warehouse's organization, None when it belongs to nobody yet; raises `WrongOrganization` where it is
    another one's. Writes nothing."""
    owner = owner_of(warehouse)
    if owner not in (None, organization_id):
        raise WrongOrganization(warehouse.root, str(owner), organization_id)
    return owner


def owner_of(warehouse: Warehouse) -> str | None:
    """Return the organization that the warehouse is a copy of; None when it belongs to nobody yet. Writes nothing."""
    return OrganizationLog(warehouse).organization_id


def check_accepted(accepted: str, organization_id: str) -> None:
    """Raise `SettingsError` unless the id that a person typed, of 15 or 18 characters, is that of the connected org."""
    option = "--accept-organization"
    try:
        named = eighteen_characters(accepted)
    except ValueError as error:
        raise SettingsError(option, str(error), f"The settings lead to {organization_id}") from error
    if named != organization_id:
        problem = f"names {named}, but the SFCDC_* settings lead to the organization {organization_id}"
        raise SettingsError(option, problem, "Correct the settings, or name the organization that they lead to")


@retry_on_conflict
def accept_organization(
    warehouse: Warehouse, organization_id: str, channels: Sequence[str], now_ms: int
) -> dict[str, int]:
    """Give the warehouse to another organization; returns where the order of each channel was broken for it.

    Every entity becomes suspect as a whole and is read again; rows that the new org does not have end as deleted, and
    history goes on. Binding comes last: after a crash in between the warehouse is still the other org's, and accepting
    again breaks the order once more, which changes nothing. Does nothing when the warehouse is the organization's
    already.
    """
    log, owner = OrganizationLog(warehouse), owner_of(warehouse)
    if owner in (None, organization_id):
        claim_warehouse(warehouse, organization_id, now_ms)
        return {}
    broken_at: dict[str, int] = {}
    landed = [*RawEvents.open(warehouse).channels(), *(channel for channel, _ in event_tables(warehouse))]
    landed += channels_of_entities(warehouse)  # polls land no events, and what fed an object before may be set no more
    for channel in dict.fromkeys([*channels, *landed]):
        reason = f"the organization changed from {owner} to {organization_id}, which was accepted"
        table = landed_table(warehouse, channel)
        checkpoint = lose_checkpoint(warehouse, table, table.checkpoint(channel), reason, now_ms)
        broken_at[channel] = checkpoint.position
    log.bind(organization_id, now_ms, broken_at)
    return broken_at


def follow_instance(
    warehouse: Warehouse, channel: str, organization_id: str, name: InstanceName, now_ms: int
) -> str | None:
    """Return why the channel's checkpoint is lost, if it is another instance's; its order is broken then.

    A name that differs from the noted one may be the older of the two: another process has noted a move that this one,
    which asks seldom, has not heard of. So the org is asked once more, and nothing is broken while it does not answer.

    An org that moves keeps its organization id, and a replay id of the old instance may mean another event on the new
    one without being refused. The instance is noted last: after a crash in between the order is broken once more, which
    changes nothing. Raises `ConcurrentCommit`.
    """
    before, instance = OrganizationLog(warehouse).instance(channel), name()
    if before not in (None, instance):
        instance = name.asked_now()
    if instance is None or instance == before:
        return None
    table = landed_table(warehouse, channel)
    checkpoint, reason = table.checkpoint(channel), None
    if before is not None and (checkpoint.is_known or checkpoint.begun is not None):
        reason = f"the org moved from the instance {before} to {instance}"
        checkpoint = lose_checkpoint(warehouse, table, checkpoint, reason, now_ms)
    _note_instance(warehouse, channel, organization_id, instance, checkpoint.position, now_ms)
    return reason


@retry_on_conflict
def _note_instance(
    warehouse: Warehouse, channel: str, organization_id: str, instance: str, position: int, now_ms: int
) -> None:
    log = OrganizationLog(warehouse)
    if log.instance(channel) != instance:
        log.note_instance(channel, organization_id, instance, position, now_ms)
