"""Names of entities that people write, on the command line and in SFCDC_ENTITIES: one that is mistyped must not end as
"nothing to do" or "all is applied"."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sfcdc_assets.lake.warehouse import Warehouse
from sfcdc_assets.org_connection.org_connection import OrgConnection
from sfcdc_assets.runtime.errors import SettingsError, SfcdcError
from sfcdc_assets.salesforce.channel_members import ChannelMembers
from sfcdc_assets.settings.channel_kinds import is_polled
from sfcdc_assets.settings.setting_values import nearest
from sfcdc_assets.settings.settings import Settings


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


class NoSuchEntity(SfcdcError):
    """A command was given the name of an entity that it cannot work on. `problem` says why, `known` lists those that it
    can work on; `near` is the one of these that is most like the name, None when none is."""

    def __init__(self, entity: str, problem: str, known: Collection[str]) -> None:
        self.entity, self.known, self.near = entity, tuple(sorted(known)), nearest(entity, known)
        listed = ", ".join(self.known) or "none yet; run `sfcdc sync` first"
        remedy = f"Did you mean {self.near}?" if self.near else f"Known are: {listed}"
        super().__init__(f"{entity}: {problem}. {remedy}")


def entity_named(given: str, known: Collection[str], problem: str) -> str:
    """Return the known entity that a person means, whatever the case: views in SQL have names in lower case. Raises
    `NoSuchEntity`; `problem`: what is said of a name that is not known."""
    if given in known:
        return given
    found = [entity for entity in known if entity.lower() == given.lower()]
    if len(found) != 1:
        raise NoSuchEntity(given, problem, known)
    return found[0]


def check_wanted_entities(warehouse: Warehouse, settings: Settings, org: OrgConnection) -> None:
    """Raise `UnknownWantedEntity` for a name in SFCDC_ENTITIES that nothing will ever come of.

    What is copied already is not asked about: it costs no request from then on, and an object that an administrator
    takes off the channel does not stop the others. Where the org does not list a channel's members to this user, the
    names of its objects are all that can be compared.
    """
    unknown = _others(settings.entities, warehouse.entities("snapshot")) if settings.entities else []
    if not unknown:
        return
    listed = [org.members(channel) for channel in settings.feeding_channels]
    known = {entity for members in listed for entity in (members.entities if members else ())}
    if any(members is None for members in listed):
        objects = org.object_names()
        if objects is None:
            return
        known |= objects
    for entity in _others(settings.entities, known):
        if entity in unknown:
            raise UnknownWantedEntity(entity, settings.channels, nearest(entity, known))


def _others(written: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the names that none of the known ones is, in any case."""
    lower = {each.lower() for each in known}
    return [each for each in written if each.lower() not in lower]


def entities_to_copy(
    settings: Settings, warehouse: Warehouse, listed: Mapping[str, ChannelMembers | None]
) -> tuple[str, ...]:
    """Return those that a run would copy, as far as they are known. `listed`: channel -> its members, None where the
    org does not tell them."""
    known = {entity for members in listed.values() if members for entity in members.entities}
    if any(members is None for members in listed.values()):
        known |= set(_others(settings.entities, known) if settings.entities else warehouse.entities("snapshot"))
    return tuple(sorted(entity for entity in known if not settings.entities or entity in settings.entities))


def polled_among(entities: Collection[str], listed: Mapping[str, ChannelMembers | None]) -> frozenset[str]:
    """Return those of the entities that are polled, because no channel carries them. `listed`: as for
    `entities_to_copy`."""
    polled = {each for channel, found in listed.items() if is_polled(channel) and found for each in found.entities}
    fed = {each for channel, found in listed.items() if not is_polled(channel) and found for each in found.entities}
    return frozenset(polled - fed) & frozenset(entities)
