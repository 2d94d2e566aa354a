"""SFCDC_ENTITIES names what is to be copied; a name that is mistyped must not end as "all is applied"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfcdc_assets.config import Settings
from sfcdc_assets.errors import SettingsError
from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.pipeline.org_connection import OrgConnection
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.setting_names import nearest


class UnknownWantedEntity(SettingsError):
    """SFCDC_ENTITIES names an entity that the org does not have, or that no configured channel carries."""

    def __init__(self, entity: str, channels: Sequence[str], near: str | None) -> None:
        self.entity, self.near = entity, near
        remedy = (
            f"Did you mean {near}?"
            if near
            else "Select it for Change Data Capture in the org's Setup, or add its channel to SFCDC_CHANNELS"
        )
        super().__init__("SFCDC_ENTITIES", f"no configured channel ({', '.join(channels)}) carries {entity}", remedy)


def check_wanted_entities(warehouse: Warehouse, settings: Settings, org: OrgConnection) -> None:
    """Raise `UnknownWantedEntity` for a name in SFCDC_ENTITIES that nothing will ever come of.

    What is copied already is not asked about: it costs no request from then on, and an object that an administrator
    takes off the channel does not stop the others. Where the org does not list a channel's members to this user, the
    names of its objects are all that can be compared.
    """
    unknown = set(settings.entities) - set(warehouse.entities("snapshot")) if settings.entities else set()
    if not unknown:
        return
    listed = [org.members(channel) for channel in settings.change_channels]
    known = {entity for members in listed for entity in (members.entities if members else ())}
    if any(members is None for members in listed):
        objects = org.object_names()
        if objects is None:
            return
        known |= objects
    for entity in settings.entities:
        if entity in unknown and entity not in known:
            raise UnknownWantedEntity(entity, settings.channels, nearest(entity, known))


def entities_to_copy(
    settings: Settings, warehouse: Warehouse, listed: Mapping[str, ChannelMembers | None]
) -> tuple[str, ...]:
    """Those that a run would copy, as far as they are known. `listed`: channel -> its members, None where the org does
    not tell them."""
    known = {entity for members in listed.values() if members for entity in members.entities}
    if any(members is None for members in listed.values()):
        known |= set(settings.entities) or set(warehouse.entities("snapshot"))
    return tuple(sorted(entity for entity in known if not settings.entities or entity in settings.entities))
