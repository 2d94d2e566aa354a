"""The users every org has from the start: the integration user clients log in as, and the automated process user."""

from __future__ import annotations

from dataclasses import dataclass

from sfcdc_assets.emulator.org.clock import whole_second
from sfcdc_assets.emulator.org.ids import instance_characters, new_id
from sfcdc_assets.emulator.org.org_core import OrgCore
from sfcdc_assets.emulator.org.profiles import profiles
from sfcdc_assets.emulator.org.transaction import StoredValue

_FIRST_NUMBER = 1_000


@dataclass(frozen=True)
class StandardUsers:
    """Ids (18 characters) of the standard users."""

    integration: str
    automated_process: str


def create_standard_users(org: OrgCore) -> StandardUsers:
    """Make the users if they are not there, without events; an org without a User object has just their ids."""
    definition = org.definitions.get("User")
    prefix = definition.key_prefix if definition else "005"
    instance = instance_characters(org.seed)
    ids = [new_id(prefix, instance, _FIRST_NUMBER + n) for n in range(2)]
    if definition is not None:
        people = (
            (org.settings.credentials.username, "Integration", "User"),
            ("autoproc@emulator.example", "Automated", "Process"),
        )
        now = whole_second(org.clock())
        for record_id, (username, first, last) in zip(ids, people, strict=True):
            if org.store.exists(definition, record_id):
                continue
            facts: dict[str, StoredValue] = {
                "Id": record_id, "Username": username, "FirstName": first, "LastName": last, "Email": username,
                "Alias": last[:8].lower(), "CreatedDate": now, "CreatedById": ids[0], "LastModifiedDate": now,
                "LastModifiedById": ids[0], "SystemModstamp": now,
                "TimeZoneSidKey": "GMT",  # what date literals, date functions and FORMAT go by
                "ProfileId": profiles(instance)[0].id,
                "UserType": "Standard" if last == "User" else "AutomatedProcess",
            }  # fmt: skip
            defaults = {field.name: field.default for field in definition.stored_fields if field.default is not None}
            known = {field.name for field in definition.stored_fields}
            org.store.insert(
                definition, {**defaults, **{name: value for name, value in facts.items() if name in known}}
            )
    return StandardUsers(integration=ids[0], automated_process=ids[1])
